"""Which flows go back together, and what a reset leaves alone; on a real broker, without Spark."""

from pathlib import Path

import pytest

from penstock.base.errors import UserError
from penstock.client.blocking import BlockingClient
from penstock.client.topics import NewTopic, create_topics
from penstock.spark.pipelines.lag import LagMeter
from penstock.spark.pipelines.paths import checkpoint_of, table_of
from penstock.spark.pipelines.project import Project, TableTarget
from penstock.spark.pipelines.reset import plan_reset, reset
from penstock.testing import EmbeddedBroker
from tests.spark.pipelines.projects import make_project, send

# As in the example: one flow stitches, two read what it wrote; others read the same logs.
CHAIN = """
[flows.stitching]
from = "@T"
transform = "@M:any"
to = { topic = "@T-traces" }
[flows.table]
from = "@T-traces"
transform = "@M:any"
to = { table = "traces" }
[flows.graph]
from = "@T-traces"
transform = "@M:any"
to = { topic = "@T-graph" }
[flows.minutes]
from = "@T"
transform = "@M:any"
to = { table = "minutes" }
"""
SECOND_WRITER = """
[flows.import]
from = "@T-old"
transform = "@M:any"
to = { topic = "@T-traces" }
"""
LOOP = """
[flows.there]
from = "@T"
transform = "@M:any"
to = { topic = "@T-back" }
[flows.back]
from = "@T-back"
transform = "@M:any"
to = { topic = "@T" }
"""


def project_of(directory: Path, servers: str, flows: str, topic: str) -> Project:
    """As if every flow had run."""
    project = make_project(directory, servers, flows.replace("@T", topic), "")
    for flow in project.flows.values():
        checkpoint_of(project, flow).mkdir(parents=True)
        if isinstance(flow.to, TableTarget):
            table_of(project, flow.to).mkdir(parents=True)
    return project


def kept(project: Project) -> set[str]:
    """The flows that go on where they were."""
    return {name for name, flow in project.flows.items() if checkpoint_of(project, flow).exists()}


def record_count(project: Project, topic: str) -> int:
    with LagMeter(project) as meter:
        ends = meter.look([topic])
    assert ends is not None
    return ends.lag([topic], {})


@pytest.mark.parametrize(
    ("flow", "alone", "flows", "topics"),
    [
        ("stitching", False, ["stitching", "table", "graph"], ["logs-traces"]),
        ("stitching", True, ["stitching"], []),
        ("table", False, ["table"], []),
        ("graph", False, ["graph"], []),
        ("minutes", False, ["minutes"], []),
    ],
)
def test_a_flow_goes_back_with_those_it_feeds(
    tmp_path: Path, flow: str, alone: bool, flows: list[str], topics: list[str]
) -> None:
    project = project_of(tmp_path, "localhost:1", CHAIN, "logs")

    plan = plan_reset(project, project.flows[flow], alone=alone)

    assert ([each.name for each in plan.flows], list(plan.topics)) == (flows, topics)


@pytest.mark.parametrize(
    ("declared", "flow", "flows", "topics"),
    [
        (CHAIN + SECOND_WRITER, "stitching", ["stitching"], []),
        (LOOP, "there", ["there", "back"], ["logs-back"]),
    ],
    ids=["another flow writes there too", "it is what all begins with"],
)
def test_a_topic_is_not_emptied_if_the_flows_would_not_fill_it_again(
    tmp_path: Path, declared: str, flow: str, flows: list[str], topics: list[str]
) -> None:
    project = project_of(tmp_path, "localhost:1", declared, "logs")

    plan = plan_reset(project, project.flows[flow])

    assert ([each.name for each in plan.flows], list(plan.topics)) == (flows, topics)


def test_the_topic_between_is_emptied_and_the_others_are_not_touched(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    project = project_of(tmp_path, servers, CHAIN, topic)
    for each in (topic, f"{topic}-traces", f"{topic}-graph"):
        send(servers, each, ["a", "b", "c"], partitions=2)

    removed = reset(project, plan_reset(project, project.flows["stitching"]))

    assert [(each.flow, each.checkpoint, each.table) for each in removed] == [
        ("stitching", True, None),
        ("table", True, "traces"),
        ("graph", True, None),
    ]
    assert [each.notes for each in removed] == [
        (),
        (),
        (f"what was written to topic {topic}-graph stays, and is written again",),
    ]
    counts = [record_count(project, each) for each in (topic, f"{topic}-traces", f"{topic}-graph")]
    assert counts == [3, 0, 3]
    assert kept(project) == {"minutes"}
    assert table_of(project, project.flows["minutes"].to).exists()  # type: ignore[arg-type]

    again = reset(project, plan_reset(project, project.flows["stitching"]))
    assert not any(each.checkpoint for each in again), (
        "a second time there is nothing to remove, and nothing fails"
    )


def test_a_topic_that_cannot_be_emptied_keeps_everything_as_it_was(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    project = project_of(tmp_path, broker.bootstrap_servers, CHAIN, topic)
    with BlockingClient(broker.bootstrap_servers) as blocking:
        compacted = NewTopic(f"{topic}-traces", 1, configs={"cleanup.policy": "compact"})
        blocking.run(create_topics(blocking.client, [compacted]))

    with pytest.raises(UserError, match=f"nothing was reset, since topic {topic}-traces cannot be emptied: "):
        reset(project, plan_reset(project, project.flows["stitching"]))

    assert kept(project) == {"stitching", "table", "graph", "minutes"}


def test_without_a_broker_nothing_is_reset_that_would_count_twice(tmp_path: Path) -> None:
    project = project_of(tmp_path, "localhost:1", CHAIN, "logs")

    with pytest.raises(UserError, match="nothing was reset, since topic logs-traces cannot be emptied: "):
        reset(project, plan_reset(project, project.flows["stitching"]))

    assert kept(project) == {"stitching", "table", "graph", "minutes"}
