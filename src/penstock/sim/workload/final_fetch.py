"""Fetches at the end of a run: no faults are injected any more, but replicas and leaders may still move."""

from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.fetch import Fetched, FetchLimits, fetch
from penstock.client.retries import is_stale_metadata

_LIMITS = FetchLimits(max_wait_ms=1)


async def final_fetch(
    client: Client, partition: TopicPartition, position: int, *, committed_only: bool = False
) -> Fetched:
    """Fetch at a position. After NOT_LEADER_OR_FOLLOWER the leader is looked up again, as by any consumer: the final
    checks may create an internal topic, after which the cluster balances its leaders once more.
    """

    async def attempt() -> Fetched:
        (node_id,) = await client.leaders([partition])
        (fetched,) = await fetch(
            client, node_id, {partition: position}, _LIMITS, committed_only=committed_only
        )
        if fetched.refusal is not None and is_stale_metadata(fetched.refusal.code):
            raise AnsweredError(fetched.refusal, f"{partition} at offset {position}")
        return fetched

    return await client.retry(attempt)
