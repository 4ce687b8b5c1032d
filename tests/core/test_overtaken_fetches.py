"""A fetch that a later one of its session overtook, on another connection, fails when it ends."""

from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import FetchSessions, FetchTarget, IncrementalFetch, PartitionOutcome

KEY = ("t", 0)


def test_a_fetch_whose_partitions_were_all_forgotten_meanwhile_is_outdated():
    sessions = FetchSessions(slots=1, partitions_max=10, random_below=lambda _: 0)
    common = {"uses_topic_ids": False, "now_ms": 0}
    first = sessions.begin(session_id=0, epoch=0, wanted={KEY: FetchTarget(0, 100)}, **common)
    assert not isinstance(first, ErrorCode)
    session_id = first.finish({KEY: PartitionOutcome(1, 0)}).session_id
    slow = sessions.begin(session_id=session_id, epoch=1, wanted={}, **common)
    assert isinstance(slow, IncrementalFetch)
    sessions.begin(session_id=session_id, epoch=2, wanted={}, forgotten=[KEY], **common)
    assert slow.finish({KEY: PartitionOutcome(5, 0, 10)}).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
