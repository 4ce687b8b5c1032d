"""What went wrong in a query, in one line. Spark wraps the cause in pages of two languages' stack traces. Pure."""

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
    """Whether the machine was only too busy: through Spark Connect, the process that is to run foreachBatch has ten
    seconds to report, and no setting gives it more."""
    return _LATE_WORKER in text


def cause_of(text: str) -> str:
    """The line that tells most: our own error, else the innermost of Python, else the innermost of the JVM, else what
    Spark says first."""
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
