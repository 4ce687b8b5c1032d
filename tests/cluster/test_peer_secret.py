"""The cluster's secret: one per store, created by the first broker, and never logged or shown."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest

from penstock.base.errors import StorageError
from penstock.base.secret import Secret
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.cluster.metadata import PEER_SECRET
from penstock.cluster.peer_secret import decode_peer_secret, open_peer_secret
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop, run
from penstock.world.real_work import RealWork
from penstock.world.store import Operation, Store, StoreNode


def tell(story: Callable[[Callable[[], EmbeddedStore]], Awaitable[None]]) -> None:
    """Run a story with stores on one disk, each opened after the other was closed."""

    async def main() -> None:
        disk, work = MemoryDisk(size_max=1 << 20), RealWork(threads=1)
        try:
            await story(lambda: EmbeddedStore.open(disk, "metadata", loop=RealLoop(), work=work))
        finally:
            work.close()

    run(main)


class Raced:
    """A store in which another broker makes its secret between our look and our creation."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.rivals: Secret | None = None

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode:
        return await self._store.get(path, watch=watch)

    async def multi(self, operations: Sequence[Operation]) -> None:
        self.rivals = await open_peer_secret(self._store, RealEntropy())
        await self._store.multi(operations)


def test_a_broker_that_comes_second_takes_the_secret_of_the_first() -> None:
    async def story(open_store: Callable[[], EmbeddedStore]) -> None:
        store = open_store()
        raced = Raced(store)
        ours = await open_peer_secret(cast(Store, raced), RealEntropy())
        assert ours == raced.rivals == await open_peer_secret(store, RealEntropy())
        assert len(ours.reveal()) >= 43, "32 random bytes"
        await store.close()

    tell(story)


def test_the_secret_outlives_the_broker() -> None:
    async def story(open_store: Callable[[], EmbeddedStore]) -> None:
        store = open_store()
        first = await open_peer_secret(store, RealEntropy())
        await store.close()
        store = open_store()
        assert await open_peer_secret(store, RealEntropy()) == first
        await store.close()

    tell(story)


def test_each_cluster_has_a_secret_of_its_own() -> None:
    found = []

    async def story(open_store: Callable[[], EmbeddedStore]) -> None:
        store = open_store()
        found.append(await open_peer_secret(store, RealEntropy()))
        await store.close()

    tell(story)
    tell(story)
    assert found[0] != found[1]


@pytest.mark.parametrize("data", [b"", b"\xff", b'"hidden"', b'{"secret":"hidden"}', b'["hidden"'])
def test_a_damaged_node_is_named_and_not_quoted(data: bytes) -> None:
    with pytest.raises(StorageError, match=f"{PEER_SECRET} .*is damaged") as raised:
        decode_peer_secret(data)
    assert "hidden" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(StorageError, match="format 2"):
        decode_peer_secret(json.dumps({"version": 2, "secret": "hidden"}).encode())


def test_a_secret_is_not_in_its_repr_or_str() -> None:
    secret = decode_peer_secret(json.dumps({"version": 1, "secret": "hidden"}).encode())
    assert secret.reveal() == "hidden"
    assert "hidden" not in f"{secret} {secret!r}"
