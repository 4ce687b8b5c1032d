"""Fetch sessions: what requests and responses leave out, and which session is evicted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import Answer, FetchSessions, FetchTarget, PartitionOutcome, next_epoch

NONE = ErrorCode.NONE
A, B, C = ("a", 0), ("b", 0), ("b", 1)
QUIET = PartitionOutcome(high_watermark=10, log_start_offset=0)


def wanted(offset=0, max_bytes=100):
    return FetchTarget(fetch_offset=offset, max_bytes=max_bytes)


class Broker:
    """Sessions with a clock and counted ids."""

    def __init__(self, *, slots=10, partitions_max=1000):
        self.ids = iter(range(100, 10_000))
        self.sessions = FetchSessions(
            slots=slots, partitions_max=partitions_max, random_below=lambda limit: next(self.ids)
        )
        self.now_ms = 0

    def begin(self, session_id, epoch, *wants, forgotten=(), uses_topic_ids=False, follower=False):
        return self.sessions.begin(
            session_id=session_id,
            epoch=epoch,
            wanted=wants[0] if wants and isinstance(wants[0], dict) else {key: wanted() for key in wants},
            forgotten=forgotten,
            uses_topic_ids=uses_topic_ids,
            follower=follower,
            now_ms=self.now_ms,
        )

    def open(self, *keys, **options):
        """A session for these partitions; its id."""
        fetch = self.begin(0, 0, *keys, **options)
        return fetch.finish({key: QUIET for key, _ in fetch.partitions()}).session_id

    def fetch(self, session_id, epoch, outcomes, *wants, **options):
        """One whole incremental fetch, with an outcome for each partition of the session."""
        fetch = self.begin(session_id, epoch, *wants, **options)
        assert not isinstance(fetch, ErrorCode), fetch
        return fetch.finish({key: outcomes.get(key, QUIET) for key, _ in fetch.partitions()})


def test_a_full_fetch_is_answered_in_full_and_opens_a_session():
    broker = Broker()
    fetch = broker.begin(0, 0, {A: wanted(5), B: wanted(6)})
    assert fetch.partitions() == [(A, wanted(5)), (B, wanted(6))]
    answer = fetch.finish({A: QUIET, B: QUIET})
    assert answer == Answer(NONE, 101, [A, B])
    assert len(broker.sessions) == 1


def test_a_fetch_without_a_session_opens_none():
    broker = Broker()
    answer = broker.begin(0, -1, A).finish({A: QUIET})
    assert answer == Answer(NONE, 0, [A])
    assert len(broker.sessions) == 0


def test_the_session_remembers_what_is_wanted():
    broker = Broker()
    session = broker.open(A, B)
    fetch = broker.begin(session, 1, {B: wanted(7), C: wanted(8)}, forgotten=[A])
    assert fetch.partitions() == [(B, wanted(7)), (C, wanted(8))]


def test_nothing_new_is_not_mentioned():
    broker = Broker()
    session = broker.open(A, B)
    assert broker.fetch(session, 1, {}) == Answer(NONE, session, [])


@pytest.mark.parametrize(
    "news",
    [
        PartitionOutcome(high_watermark=11, log_start_offset=0),
        PartitionOutcome(high_watermark=10, log_start_offset=1),
        PartitionOutcome(high_watermark=10, log_start_offset=0, records_size=1),
        PartitionOutcome(high_watermark=10, log_start_offset=0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        PartitionOutcome(high_watermark=10, log_start_offset=0, notice=True),
    ],
)
def test_news_are_mentioned(news):
    broker = Broker()
    session = broker.open(A, B)
    assert broker.fetch(session, 1, {B: news}).included == [B]


def test_unchanged_offsets_are_sent_once():
    broker = Broker()
    session = broker.open(A)
    moved = PartitionOutcome(high_watermark=12, log_start_offset=3)
    assert broker.fetch(session, 1, {A: moved}).included == [A]
    assert broker.fetch(session, 2, {A: moved}).included == []


def test_a_partition_added_later_is_mentioned_once():
    broker = Broker()
    session = broker.open(A)
    assert broker.fetch(session, 1, {}, B).included == [B]
    assert broker.fetch(session, 2, {}).included == []


def test_a_partition_is_included_while_it_has_an_error_and_once_more_when_it_has_none():
    broker = Broker()
    session = broker.open(A)
    failed = QUIET._replace(error=ErrorCode.UNKNOWN_TOPIC_ID)
    assert broker.fetch(session, 1, {A: failed}).included == [A]
    assert broker.fetch(session, 2, {A: failed}).included == [A]
    assert broker.fetch(session, 3, {}).included == [A]
    assert broker.fetch(session, 4, {}).included == []


def test_a_partition_that_sent_records_waits_for_the_others():
    broker = Broker()
    session = broker.open(A, B, C)
    broker.fetch(session, 1, {A: QUIET._replace(records_size=50)})
    fetch = broker.begin(session, 2)
    assert [key for key, _ in fetch.partitions()] == [B, C, A]


def test_under_max_bytes_every_busy_partition_gets_its_turn():
    broker = Broker()
    keys = [("t", number) for number in range(5)]
    session = broker.open(*keys)
    served = []
    for epoch in range(1, 11):
        fetch = broker.begin(session, epoch)
        first, _ = fetch.partitions()[0]
        # There is room for one partition's records in an answer.
        fetch.finish({key: QUIET._replace(records_size=100 if key == first else 0) for key in keys})
        served.append(first)
    assert served == keys + keys


def test_an_unknown_session_id_is_not_found():
    assert Broker().begin(5, 1, A) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_come_one_after_the_other():
    broker = Broker()
    session = broker.open(A)
    assert broker.begin(session, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    broker.fetch(session, 1, {})
    assert broker.begin(session, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert broker.fetch(session, 2, {}).error is NONE


def test_epochs_start_again_at_one():
    assert next_epoch(2**31 - 1) == 1
    assert next_epoch(0) == 1


def test_an_answer_the_client_no_longer_waits_for_is_empty():
    broker = Broker()
    session = broker.open(A)
    given_up = broker.begin(session, 1)
    assert broker.fetch(session, 2, {}).error is NONE
    late = given_up.finish({A: QUIET._replace(records_size=5)})
    assert late == Answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session, [])


def test_a_session_by_names_cannot_go_on_by_ids():
    broker = Broker()
    by_name = broker.open(A)
    by_id = broker.open((b"i" * 16, 0), uses_topic_ids=True)
    assert broker.begin(by_name, 1, uses_topic_ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert broker.begin(by_id, 1, uses_topic_ids=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert broker.fetch(by_id, 1, {}, uses_topic_ids=True).error is NONE


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_closes_the_session_it_names(epoch):
    broker = Broker()
    session = broker.open(A)
    broker.begin(session, epoch, A)
    assert broker.begin(session, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_closed():
    broker = Broker()
    session = broker.open(A)
    fetch = broker.begin(session, 1, forgotten=[A])
    assert fetch.partitions() == []
    assert fetch.finish({}) == Answer(NONE, 0, [])
    assert len(broker.sessions) == 0


def test_without_a_free_slot_a_young_session_of_the_same_size_stays():
    broker = Broker(slots=1)
    session = broker.open(A)
    broker.now_ms = 120_000
    assert broker.open(B, C) == 0
    assert broker.fetch(session, 1, {}).error is NONE


def test_a_session_unused_for_long_makes_room_for_any_other():
    broker = Broker(slots=2)
    used, unused = broker.open(A), broker.open(A, B)
    broker.now_ms = 120_001
    broker.fetch(used, 1, {})
    assert broker.open(C) != 0
    assert broker.begin(unused, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.fetch(used, 2, {}).error is NONE
    assert broker.sessions.evictions == 1


def test_an_older_session_makes_room_for_a_larger_one_only():
    broker = Broker(slots=2)
    small, large = broker.open(A), broker.open(A, B, C)
    broker.now_ms = 120_001
    for session in (small, large):
        broker.fetch(session, 1, {})
    assert broker.open(C) == 0
    assert broker.open(B, C) != 0
    assert broker.begin(small, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.fetch(large, 2, {}).error is NONE


def test_a_follower_takes_a_consumers_slot_and_never_the_other_way_round():
    broker = Broker(slots=1)
    consumer = broker.open(A, B)
    follower = broker.open(C, follower=True)
    assert follower != 0
    assert broker.begin(consumer, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    broker.now_ms = 120_001
    broker.fetch(follower, 1, {})
    assert broker.open(A, B) == 0


def test_with_no_slots_no_session_is_opened():
    assert Broker(slots=0).open(A) == 0


def test_partitions_of_all_sessions_together_are_bounded():
    broker = Broker(partitions_max=3)
    session = broker.open(A, B)
    assert broker.open(A, B) == 0
    assert broker.sessions.partition_count == 2
    assert broker.begin(session, 1, C, ("d", 0)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(broker.sessions), broker.sessions.partition_count) == (0, 0)


# A client that applies incremental responses must know, at any time, what full responses would contain.

KEYS = [("t", number) for number in range(4)]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["want", "forget", "append", "delete", "fail", "heal", "fetch", "fetch", "evict", "repeat"]
        ),
        st.sampled_from(KEYS),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(changes=CHANGES)
def test_what_a_session_leaves_out_the_client_already_knows(changes):
    broker = Broker(slots=1)
    truth = dict.fromkeys(KEYS, QUIET)
    mine, known = {}, {}
    pending, dropped = {}, set()
    session, epoch = 0, 0
    for change, key in changes:
        now = truth[key]
        if change == "want":
            mine[key] = pending[key] = wanted(len(known))
            dropped.discard(key)
        elif change == "forget" and key in mine:
            del mine[key]
            pending.pop(key, None)
            dropped.add(key)
        elif change == "append":
            truth[key] = now._replace(high_watermark=now.high_watermark + 1)
        elif change == "delete":
            truth[key] = now._replace(log_start_offset=now.log_start_offset + 1)
        elif change == "fail":
            truth[key] = now._replace(error=ErrorCode.KAFKA_STORAGE_ERROR)
        elif change == "heal":
            truth[key] = now._replace(error=NONE)
        elif change == "evict":
            broker.open(*(("other", number) for number in range(9)), follower=True)
        elif change == "repeat" and session:
            # A request sent twice, as after a lost answer, is not served twice.
            assert broker.begin(session, epoch + 5) in (
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        elif change == "fetch" and mine:
            # Forgotten and added again in between, a partition never left the session: earlier responses hold.
            known = {key: outcome for key, outcome in known.items() if key not in dropped}
            fetch = broker.begin(
                session, epoch, pending if session else dict(mine), forgotten=sorted(dropped)
            )
            if fetch is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                session, epoch = 0, 0
                fetch = broker.begin(0, 0, dict(mine))
            assert dict(fetch.partitions()) == mine
            answer = fetch.finish({key: truth[key] for key, _ in fetch.partitions()})
            assert answer.error is NONE
            known.update((key, truth[key]) for key in answer.included)
            assert known == {key: truth[key] for key in mine}
            session, epoch = answer.session_id, next_epoch(epoch) if answer.session_id else 0
            pending, dropped = {}, set()
    assert broker.sessions.partition_count <= 9


# Partitions that rest.


class Watch:
    ended = 0

    def end(self):
        self.ended += 1


def test_partitions_that_rest_are_not_looked_at_until_they_are_woken_or_asked_for():
    broker = Broker()
    session = broker.open(A, B, C, follower=True)
    fetch = broker.begin(session, 1)
    assert (len(fetch), fetch.has_idle) == (3, False)
    fetch.mark_idle(A)
    fetch.mark_idle(B)
    assert (fetch.partitions(), len(fetch), fetch.has_idle) == ([(C, wanted())], 1, True)
    fetch.finish({C: QUIET})
    fetch = broker.begin(session, 2, {B: wanted(5)})
    assert fetch.partitions() == [(C, wanted()), (B, wanted(5))]
    fetch.mark_active(A)
    fetch.mark_active(("unknown", 0))
    assert [key for key, _ in fetch.partitions()] == [C, B, A]
    fetch.mark_idle(A)
    fetch.mark_idle(C)
    fetch.mark_all_active()
    assert {key for key, _ in fetch.partitions()} == {A, B, C}
    fetch.mark_idle(A)
    fetch = broker.begin(session, 3, forgotten=[A, B])
    fetch.mark_all_active()
    assert [key for key, _ in fetch.partitions()] == [C]


@pytest.mark.parametrize("way", ["closed", "evicted", "empty"])
def test_the_end_of_a_session_ends_the_watch_over_its_idle_partitions(way):
    broker = Broker(slots=1)
    session = broker.open(A)
    watch = broker.begin(session, 1).idle_watch = Watch()
    if way == "closed":
        broker.begin(session, 0, A)
    elif way == "evicted":
        broker.open(A, follower=True)
    else:
        broker.begin(session, 2, forgotten=[A])
    assert watch.ended == 1
