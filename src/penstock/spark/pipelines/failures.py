"""Finds the cause of a failed query in Spark's Java and Python stack traces, as one line. Pure."""

import re
from typing import Final

_LENGTH_MAX: Final = 400
# A line of a Python traceback begins with the error's name; Java's say "Caused by" or stand behind a colon.
_PYTHON_ERROR: Final = re.compile(
    r"^(?:(?!java\.|org\.)[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE
)
_JAVA_CAUSE: Final = re.compile(r"^(?:Caused by|): (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)
_PENSTOCK_ERROR: Final = re.compile(r"penstock\.[\w.]+\.(\w+): (.+)$", re.MULTILINE)
_SPARKS_PREFIX: Final = re.compile(r"^\[[A-Z_.]+\] ?|\bSQLSTATE: \w+")

_LATE_WORKER: Final = "Timed out while waiting for the Python worker to connect back"


def is_late_worker(text: str) -> bool:
    """Whether a Python worker connected too late on a busy machine: through Spark Connect, the process of foreachBatch
    has ten seconds, which no setting changes."""
    return _LATE_WORKER in text


def cause_of(text: str) -> str:
    """The most specific line: Penstock's own error, else Python's innermost, else the JVM's innermost, else Spark's
    first."""
    ours = _PENSTOCK_ERROR.findall(text)
    if ours:
        return _short(ours[-1][1])
    if "Traceback (most recent" in text:
        for kind, message in reversed(_PYTHON_ERROR.findall(text)):
            if not kind.startswith("Py4J"):
                return _short(f"{kind}: {message}")
    java = _JAVA_CAUSE.findall(text)
    if java:
        return _short(java[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _short(_SPARKS_PREFIX.sub("", lines[0])) if lines else "Spark gave no reason"


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]} …"
