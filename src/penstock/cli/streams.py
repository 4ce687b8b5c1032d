"""Standard streams that were closed before the program began (`penstock … >&-`).

Their descriptors would go to the next files that are opened, a log's segment for instance, and what is printed into
those. So each gets /dev/null, opened such that reading or writing fails as it does on a closed one; what is written to
stderr is dropped.
"""

import os
import sys

closed: set[str] = set()  # the names of those that were

_STREAMS = (
    (0, "stdin", "r", os.O_WRONLY),
    (1, "stdout", "w", os.O_RDONLY),
    (2, "stderr", "w", os.O_WRONLY),
)


def replace_closed_streams() -> None:
    for number, name, mode, flags in _STREAMS:
        if getattr(sys, name) is not None:  # Python has none for a descriptor that is not open
            continue
        descriptor = os.open(os.devnull, flags)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        setattr(sys, name, os.fdopen(number, mode, closefd=False))
        closed.add(name)


def explain_closed() -> str | None:
    """Why a stream could not be used, for people."""
    names = " and ".join(sorted(closed - {"stderr"}))
    return f"{names} closed: redirect it, from or to /dev/null for instance" if names else None
