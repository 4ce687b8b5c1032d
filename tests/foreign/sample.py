"""Records with everything a record may have or lack, for round trips through any client."""

from typing import NamedTuple

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


SAMPLES = [
    Sample(b"key", b"value"),
    Sample(None, b"a null key"),
    Sample(b"a null value", None),
    Sample(None, None),
    Sample(b"", b""),
    Sample(b"\x00\xff", bytes(range(256))),
    Sample(b"headers", b"x", (("trace", b"1"), ("trace", b"2"), ("empty", b""), ("clé", "été".encode()))),
    *(Sample(f"key {number}".encode(), b"the same text again and again " * 20) for number in range(20)),
]

# Some clients refuse to send what has neither key nor value.
SENDABLE = [sample for sample in SAMPLES if sample != Sample(None, None)]
