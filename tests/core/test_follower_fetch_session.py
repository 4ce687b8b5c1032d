"""A follower's side of a fetch session, held against the leader's."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import FetchSessions, FetchTarget, PartitionKey, PartitionOutcome
from penstock.core.follower_fetch_session import FollowerFetchSession

T = b"a topic's id...."


def wanted(**offsets: int) -> dict[PartitionKey, FetchTarget]:
    """`wanted(p0=5)`: partition 0 from offset 5 on."""
    return {(T, int(name[1:])): FetchTarget(offset, 100) for name, offset in offsets.items()}


def test_a_session_says_what_changes_only() -> None:
    session = FollowerFetchSession()
    first = session.request(wanted(p0=0, p1=0))
    assert (first.session_id, first.epoch, list(first.wanted)) == (0, 0, [(T, 0), (T, 1)])
    session.answered(session_id=7, error=ErrorCode.NONE)
    second = session.request(wanted(p0=5, p1=0))
    assert (second.session_id, second.epoch, second.wanted) == (7, 1, wanted(p0=5))
    session.answered(session_id=7, error=ErrorCode.NONE)
    third = session.request(wanted(p1=0, p2=0))
    assert (third.epoch, third.wanted, third.forgotten) == (2, wanted(p2=0), [(T, 0)])


def test_what_is_said_of_some_leaves_the_others_as_they_were() -> None:
    session = FollowerFetchSession()
    session.request(wanted(p0=0, p1=0, p2=0))
    assert session.is_next_full
    session.answered(session_id=7, error=ErrorCode.NONE)
    assert not session.is_next_full
    second = session.incremental_request(wanted(p0=5, p1=0), [(T, 2), (T, 3)])
    assert (second.epoch, second.wanted, second.forgotten) == (1, wanted(p0=5), [(T, 2)])
    session.answered(session_id=7, error=ErrorCode.NONE)
    third = session.request(wanted(p0=5, p1=0, p2=0))
    assert (third.epoch, third.wanted, third.forgotten) == (2, wanted(p2=0), [])


def test_without_a_session_everything_is_said_again() -> None:
    session = FollowerFetchSession()
    for _ in range(2):
        asked = session.request(wanted(p0=0))
        assert (asked.session_id, asked.epoch, asked.wanted) == (0, 0, wanted(p0=0))
        session.answered(session_id=0, error=ErrorCode.NONE)


def test_a_session_that_is_lost_begins_again_and_one_that_is_restarted_is_named() -> None:
    session = FollowerFetchSession()
    session.request(wanted(p0=0))
    session.answered(session_id=7, error=ErrorCode.NONE)
    session.restart()
    asked = session.request(wanted(p0=0))
    assert (asked.session_id, asked.epoch, asked.wanted) == (7, 0, wanted(p0=0))
    session.answered(session_id=0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    asked = session.request(wanted(p0=0))
    assert (asked.session_id, asked.epoch) == (0, 0)


Steps = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 3), st.integers(0, 3), min_size=1),
        st.sampled_from(["", "reset", "restart"]),
    ),
    min_size=1,
    max_size=12,
)


@given(Steps, st.booleans())
def test_the_leader_always_reads_what_the_follower_wants(
    steps: list[tuple[dict[int, int], str]], says_changes_only: bool
) -> None:
    sessions = FetchSessions(slots=2, partitions_max=100, random_below=lambda limit: 5)
    session = FollowerFetchSession()
    before: dict[PartitionKey, FetchTarget] = {}
    for offsets, trouble in steps:
        want = {(T, index): FetchTarget(offset, 100) for index, offset in offsets.items()}
        if says_changes_only and not session.is_next_full:
            changed = {key: one for key, one in want.items() if before.get(key) != one}
            asked = session.incremental_request(changed, [key for key in before if key not in want])
        else:
            asked = session.request(want)
        before = want
        fetch = sessions.begin(
            session_id=asked.session_id,
            epoch=asked.epoch,
            wanted=asked.wanted,
            forgotten=asked.forgotten,
            uses_topic_ids=True,
            follower=True,
            now_ms=0,
        )
        assert not isinstance(fetch, ErrorCode)
        assert dict(fetch.partitions()) == want
        answer = fetch.finish({key: PartitionOutcome(0, 0) for key, _ in fetch.partitions()})
        session.answered(session_id=answer.session_id, error=answer.error)
        if trouble:
            getattr(session, trouble)()
        if trouble == "reset":
            sessions = FetchSessions(slots=2, partitions_max=100, random_below=lambda limit: 5)
