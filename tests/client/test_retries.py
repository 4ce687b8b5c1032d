from penstock.base.errors import ErrorCode
from penstock.client.retries import Backoff, is_stale_metadata


def test_waits_double_up_to_the_ceiling() -> None:
    backoff = Backoff(first_ms=50, ceiling_ms=1000)
    assert [backoff.delay_ms(attempt, chance=50) for attempt in range(6)] == [50, 100, 200, 400, 800, 1000]
    assert backoff.delay_ms(10_000, chance=50) == 1000


def test_chance_spreads_a_wait_to_both_sides_and_never_makes_it_nothing() -> None:
    backoff = Backoff(first_ms=1000, ceiling_ms=1000, spread_percent=20)
    assert backoff.delay_ms(0, chance=0) == 800
    assert 1190 <= backoff.delay_ms(0, chance=99) <= 1200
    assert Backoff(first_ms=1).delay_ms(0, chance=0) >= 1


def test_a_moved_leader_calls_for_metadata_and_a_full_disk_quota_does_not() -> None:
    assert is_stale_metadata(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert is_stale_metadata(ErrorCode.UNKNOWN_TOPIC_ID)
    assert not is_stale_metadata(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert not is_stale_metadata(ErrorCode.REQUEST_TIMED_OUT)
