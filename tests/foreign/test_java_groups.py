"""Groups of Kafka's own client in several processes, and Kafka's tools for groups.

The scenario in `members.story` runs once; the tests check what the ledger of each group recorded.
"""

from collections.abc import Iterator

import pytest

from tests.foreign.members.java_program import compiled_member
from tests.foreign.members.story import PARTITIONS, Story, told

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("java groups")]

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "consumer-uniform", "consumer-range")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, needs_kafka: None, needs_jdk: None) -> Iterator[Story]:
    program = compiled_member(tmp_path_factory.mktemp("member"))
    with told({"java": (program, STRATEGIES)}) as story:
        yield story


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_record_is_read_by_exactly_one_member_at_a_time(story: Story, strategy: str) -> None:
    ledger = story.ledger("java", strategy)
    assert ledger.values() == story.poured
    assert ledger.faults() == []


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "consumer-uniform"])
def test_members_read_on_from_partitions_that_they_keep(story: Story, strategy: str) -> None:
    ledger = story.ledger("java", strategy)
    for member in ("first", "second"):
        given_up = ledger.given_up(member, from_ns=story.third_came_ns, until_ns=story.third_settled_ns)
        assert len(given_up) == 1, f"{member} went from three partitions to two"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_committed_offsets_survive_the_killing_of_the_broker(story: Story, strategy: str) -> None:
    assert story.committed("java", strategy) == {len(story.poured) // PARTITIONS}
