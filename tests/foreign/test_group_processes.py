"""Groups of several processes of each Python client: members join, leave, are killed and come again.

The scenario in `members.story` runs once; the tests check what the ledger of each group recorded.
"""

from collections.abc import Iterator

import pytest

from tests.foreign.members.crew import python_program
from tests.foreign.members.story import PARTITIONS, Story, told

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("group processes")]

CLIENTS = {
    "confluent": ("range", "roundrobin", "cooperative-sticky", "consumer-uniform", "consumer-range"),
    "aiokafka": ("range", "roundrobin", "sticky"),
    "kafka_python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
}
GROUPS = [(client, strategy) for client, strategies in CLIENTS.items() for strategy in strategies]
INCREMENTAL = [each for each in GROUPS if each[1] in ("cooperative-sticky", "consumer-uniform")]


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    programs = {
        client: (python_program(f"{client}_member"), strategies) for client, strategies in CLIENTS.items()
    }
    with told(programs) as story:
        yield story


@pytest.mark.parametrize(("client", "strategy"), GROUPS)
def test_every_record_is_read_by_exactly_one_member_at_a_time(
    story: Story, client: str, strategy: str
) -> None:
    ledger = story.ledger(client, strategy)
    assert ledger.values() == story.poured
    assert ledger.faults() == []


@pytest.mark.parametrize(("client", "strategy"), INCREMENTAL)
def test_members_read_on_from_partitions_that_they_keep(story: Story, client: str, strategy: str) -> None:
    ledger = story.ledger(client, strategy)
    for member in ("first", "second"):
        given_up = ledger.given_up(member, from_ns=story.third_came_ns, until_ns=story.third_settled_ns)
        assert len(given_up) == 1, f"{member} went from three partitions to two"


@pytest.mark.parametrize(("client", "strategy"), GROUPS)
def test_committed_offsets_survive_the_killing_of_the_broker(
    story: Story, client: str, strategy: str
) -> None:
    assert story.committed(client, strategy) == {len(story.poured) // PARTITIONS}
