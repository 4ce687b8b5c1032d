"""The one thing in which a block is not run as written: 9092, the port of all documents, is a free one here.

Where it is written it is replaced. Where it is left out since it is the default, commands that serve get `--listen`,
and those that are clients hear of it through PENSTOCK_BOOTSTRAP_SERVERS, as a user would do it.
"""

import re

from penstock.cli.parsing import BOOTSTRAP_VARIABLE

_WRITTEN = re.compile(r"\b(localhost|127\.0\.0\.1):9092\b")
_SERVES = re.compile(r"\bpenstock (serve|cluster up)\b(?!.*--listen)")
_WRITES_IT_DOWN = re.compile(r"\bpenstock pipeline init\b")


def at_port(text: str, port: int) -> str:
    text = _WRITTEN.sub(rf"127.0.0.1:{port}", text)
    text = _SERVES.sub(rf"\g<0> --listen 127.0.0.1:{port}", text)
    return _WRITES_IT_DOWN.sub(rf"\g<0> -b 127.0.0.1:{port}", text)


def environment(port: int) -> dict[str, str]:
    return {BOOTSTRAP_VARIABLE: f"127.0.0.1:{port}"}
