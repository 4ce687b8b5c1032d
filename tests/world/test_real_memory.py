"""Memory that large buffers had is used again, not mapped again: counted in page faults of a process of its own."""

import platform
import subprocess
import sys

import pytest

# Eight requests of half a megabyte at a time, 100 MB in all.
PROGRAM = """
import resource, sys
from penstock.world.real_memory import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()

def receive(times):
    for _ in range(times):
        requests = [b"x" * (1 << 19) for _ in range(8)]
        del requests

receive(5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
receive(25)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 25 * 8 * (1 << 19) // 4096


def faults(word: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, word], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_pages_of_large_buffers_are_not_mapped_again_and_again() -> None:
    assert faults("kept") < PAGES / 100


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do it in other ways")
def test_without_the_setting_the_c_library_maps_them_again() -> None:
    """Otherwise the setting is no longer needed."""
    assert faults("left") > PAGES / 2
