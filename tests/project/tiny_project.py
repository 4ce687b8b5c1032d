"""A project of one dependency, and a package index on loopback that counts its callers.

With these the set-up script runs as on a fresh machine, in seconds and without the internet.
"""

import base64
import hashlib
import http.server
import io
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
SETUP_NEEDS = ["sh", "dirname", "cat", "cmp", "touch", "rm", "uname", "mkdir"]

# Builds an editable wheel with the standard library alone, so that no build tool has to be fetched.
BACKEND = """
import pathlib, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        wheel.writestr("tiny.pth", str(pathlib.Path("src").resolve()))
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return name

build_wheel = build_editable
"""

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1.0"
"""


class PackageIndex:
    """Serves wheels of one-line modules, made as they are asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken = False
        self._wheels: dict[str, bytes] = {}
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.calls.append(self.path)
                answer = None if index.broken else index._answer(self.path.strip("/").split("/"))
                self.send_response(200 if answer is not None else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(answer or b"")

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def lock_line(self, name: str, version: str) -> str:
        wheel = _wheel(name, version)
        self._wheels[f"{name}-{version}-py3-none-any.whl"] = wheel
        return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\n"

    def _answer(self, path: list[str]) -> bytes | None:
        if path[0] == "simple":
            files = [file for file in self._wheels if file.startswith(f"{path[1]}-")]
            return "".join(f'<a href="/files/{file}">{file}</a>' for file in files).encode()
        return self._wheels.get(path[-1])


class TinyProject:
    """A folder with the real set-up script and locks that name only what a PackageIndex serves."""

    def __init__(self, folder: Path, index: PackageIndex) -> None:
        self.folder = folder
        self.index = index
        (folder / "scripts").mkdir(parents=True)
        (folder / "requirements").mkdir()
        (folder / "src").mkdir()
        shutil.copy(ROOT / "scripts" / "setup.sh", folder / "scripts")
        (folder / "pyproject.toml").write_text(PYPROJECT)
        (folder / "backend.py").write_text(BACKEND)
        (folder / "src" / "tiny.py").write_text("GREETING = 'from the source folder'\n")
        self.lock("run", ("dependency", "1.0"))
        self.lock("dev", ("dependency", "1.0"), ("linter", "1.0"))

    def lock(self, flavour: str, *packages: tuple[str, str]) -> None:
        lines = [self.index.lock_line(name, version) for name, version in packages]
        (self.folder / "requirements" / f"{flavour}.lock").write_text("".join(lines))

    def set_up(self, flavour: str = "run", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "scripts/setup.sh", flavour],
            cwd=self.folder,
            env={**self._environment(), **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def evaluate(self, expression: str) -> str:
        """What the environment's own interpreter makes of an expression."""
        done = subprocess.run(
            [self.folder / ".venv" / "bin" / "python", "-c", f"print({expression})"],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return (done.stdout + done.stderr).strip()

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "PYTHON", "VENV"))
        }
        return {**kept, "PYTHON": sys.executable, "PIP_INDEX_URL": self.index.url, "PIP_NO_CACHE_DIR": "1"}


def programs(folder: Path, **scripts: str) -> str:
    """A PATH that holds what the set-up script needs and these shell scripts, and no other Python."""
    folder.mkdir()
    for name in SETUP_NEEDS:
        found = shutil.which(name)
        assert found, f"{name} is on every system"
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def _wheel(name: str, version: str) -> bytes:
    information = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        for path, text in {**files, f"{information}/RECORD": record}.items():
            wheel.writestr(zipfile.ZipInfo(path), text)  # a fixed date, so the hash is the same every time
    return buffer.getvalue()


def _digest(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"
