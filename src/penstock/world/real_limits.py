"""Resource limits of this process."""

import resource

# macOS reports "no limit" and then refuses more than this.
_OPEN_FILES_CEILING = 1 << 20


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files to the hard limit; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_CEILING if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_CEILING)
    if soft != resource.RLIM_INFINITY and soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
