"""The cache of descriptors, step by step."""

import errno
import os
from pathlib import Path

import pytest

from penstock.world.real_file import DescriptorCache, Inode


@pytest.fixture
def cache(tmp_path: Path) -> DescriptorCache:
    for name in "abc":
        (tmp_path / name).write_text(name)
    return DescriptorCache(f"{tmp_path}/", limit=1)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_pinned_descriptor_outlives_the_removal_of_its_file(cache: DescriptorCache) -> None:
    inode = Inode("a", 1)
    descriptor = cache.pin(inode)
    assert cache.pin(inode) == descriptor
    with cache.names:
        cache.drop(inode, answer=errno.ENOENT)
    cache.unpin(inode)
    assert os.pread(descriptor, 9, 0) == b"a"
    cache.unpin(inode)
    assert not is_open(descriptor)
    assert len(cache) == 0
    with pytest.raises(FileNotFoundError):
        cache.pin(inode)


def test_the_limit_is_passed_only_while_all_are_pinned(cache: DescriptorCache) -> None:
    first, second, third = Inode("a", 1), Inode("b", 1), Inode("c", 1)
    pinned = cache.pin(first)
    cache.unpin(first)
    cache.pin(second)
    assert not is_open(pinned)
    cache.pin(third)
    assert len(cache) == 2
    cache.unpin(second)
    cache.unpin(third)
    cache.pin(first)
    assert len(cache) == 1
    cache.unpin(first)


def test_a_file_that_vanished_is_reported_and_tried_again(cache: DescriptorCache, tmp_path: Path) -> None:
    inode = Inode("later", 0)
    with pytest.raises(FileNotFoundError):
        cache.pin(inode)
    (tmp_path / "later").write_text("here")
    assert os.pread(cache.pin(inode), 9, 0) == b"here"
    cache.unpin(inode)
