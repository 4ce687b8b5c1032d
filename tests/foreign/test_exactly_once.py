"""Each record exactly once, while brokers and workers are killed and answers are lost.

`make chaos` runs the same for minutes; here it is seconds.
"""

from collections.abc import Iterator

import pytest

from tests.chaos import exactly_once
from tests.chaos.exactly_once import faults_of
from tests.chaos.idempotence import SENDERS, lossy_broker, sent_through_losses
from tests.chaos.lossy_proxy import LossyProxy
from tests.foreign.target import target_is_kafka

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(target_is_kafka(), reason="the runs are made of Penstock's own processes"),
]


def test_copies_in_transactions_are_exact_though_broker_and_workers_are_killed() -> None:
    report = exactly_once.run(20, seed=2026)

    assert report.faults == [], str(report)
    assert report.records > 0
    assert report.both_were_killed


@pytest.fixture(scope="module")
def proxy() -> Iterator[LossyProxy]:
    with lossy_broker() as proxy:
        yield proxy


@pytest.mark.parametrize("client", SENDERS)
def test_lost_answers_make_duplicates_without_idempotence_and_none_with_it(
    proxy: LossyProxy, client: str
) -> None:
    sent, stored, lost = sent_through_losses(proxy, client, idempotent=False)
    assert lost > 0
    assert len(stored) > len(sent)
    assert list(dict.fromkeys(stored)) == sent

    sent, stored, lost = sent_through_losses(proxy, client, idempotent=True)
    assert lost > 0
    assert stored == sent


def test_the_run_names_what_is_wrong_with_a_copy() -> None:
    expected = [b"1", b"2", b"3"]
    assert list(faults_of(expected, expected)) == []
    assert list(faults_of([b"1", b"3"], expected)) == ["1 lost, the first is b'2'"]
    assert list(faults_of([b"1", b"2", b"2", b"3"], expected)) == ["1 more than once, the first is b'2'"]
    assert list(faults_of([b"2", b"1", b"3"], expected)) == ["not in order"]
