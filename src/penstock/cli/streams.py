"""Replaces standard streams that are closed at start (`penstock … >&-`) by /dev/null.

Else the next opened file, a segment for instance, would get the descriptor, and output would be written into it.
/dev/null is opened such that reading or writing fails as on a closed stream; output to stderr is dropped.
"""

import os
import sys

closed: set[str] = set()  # the names of the replaced streams

_STREAMS = (
    (0, "stdin", "r", os.O_WRONLY),
    (1, "stdout", "w", os.O_RDONLY),
    (2, "stderr", "w", os.O_WRONLY),
)


def replace_closed_streams() -> None:
    for number, name, mode, flags in _STREAMS:
        if getattr(sys, name) is not None:  # Python sets it to None if the descriptor is not open
            continue
        descriptor = os.open(os.devnull, flags)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        setattr(sys, name, os.fdopen(number, mode, closefd=False))
        closed.add(name)


def explain_closed() -> str | None:
    """The error message for a closed stream."""
    names = " and ".join(sorted(closed - {"stderr"}))
    return f"{names} closed: redirect it, from or to /dev/null for instance" if names else None
