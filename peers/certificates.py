"""Certificates for tests: an authority, and what it signs, made with `openssl` in a folder of the test's."""

import subprocess
from pathlib import Path

from peers import tools


class Authority:
    """Signs certificates. `certificate` is the file that makes others trust it."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate),
        )

    def sign(self, name: str, *, host: str | None = None, password: str | None = None) -> Path:
        """A PEM file with private key and certificate, for `host` as in "IP:127.0.0.1" or "DNS:localhost"."""
        key, request, signed, more = (
            self.folder / f"{name}.{end}" for end in ("key", "request", "signed", "more")
        )
        locked = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", *locked),
            *("-subj", f"/CN={name}", "-keyout", key, "-out", request),
        )
        more.write_text(f"subjectAltName={host}\n" if host else "basicConstraints=CA:FALSE\n")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key),
            *("-CAcreateserial", "-days", "2", "-extfile", more, "-out", signed),
        )
        both = self.folder / f"{name}.pem"
        both.write_text(key.read_text() + signed.read_text())
        return both


def _openssl(*arguments: object) -> None:
    command = [str(tools.locate("openssl")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(command[:3])} failed:\n{done.stderr}"
