"""What `pipeline.toml` may say, and what is answered where it says something else."""

from pathlib import Path

import pytest

from penstock.base.errors import UserError
from penstock.spark.pipelines.project import Project, TableTarget, TopicTarget, parse_project, read_project

PROJECT = """
name = "shop"
bootstrap_servers = "here:9092"
[flows.alerts]
from = "orders, returns"
transform = "shop.alerts:find"
to = { topic = "alerts" }
[flows.hours]
from = "orders"
transform = "shop.hours:by_hour"
to = { table = "hours", key = ["hour"] }
output_mode = "update"
trigger = "5 seconds"
options = { maxOffsetsPerTrigger = 1000 }
"""


def parse(text: str, **more: str) -> Project:
    return parse_project(text, directory=Path("/projects/shop"), **more)


def flow(body: str) -> str:
    return f'[flows.one]\nfrom = "orders"\ntransform = "m:f"\nto = {{ topic = "out" }}\n{body}'


def test_a_project_is_what_its_file_says_with_defaults_for_the_rest() -> None:
    project = parse(PROJECT)

    alerts, hours = project.flows["alerts"], project.flows["hours"]
    assert (project.name, project.bootstrap_servers, project.state) == (
        "shop",
        "here:9092",
        Path("/projects/shop/state"),
    )
    assert alerts.topics == ("orders", "returns")
    assert alerts.to == TopicTarget("alerts", {})
    assert (alerts.output_mode, alerts.trigger, alerts.group) == ("append", "1 second", "shop.alerts")
    assert hours.to == TableTarget("hours", ("hour",))
    assert hours.options == {"maxOffsetsPerTrigger": "1000"}


def test_a_flow_reads_from_the_beginning_with_headers_and_shows_its_progress_in_a_group() -> None:
    project = parse(PROJECT)

    assert project.source_options(project.flows["hours"]) == {
        "startingOffsets": "earliest",
        "kafka.bootstrap.servers": "here:9092",
        "maxOffsetsPerTrigger": "1000",
        "subscribe": "orders",
        "includeHeaders": "true",
        "penstock.commit.group": "shop.hours",
    }


def test_the_command_line_goes_before_the_file() -> None:
    assert parse(PROJECT, bootstrap_servers="there:1").bootstrap_servers == "there:1"


def test_client_settings_reach_source_and_sink_alike() -> None:
    project = parse(f"{PROJECT}\n[kafka]\nclient.id = 'mine'")

    target = project.flows["alerts"].to
    assert isinstance(target, TopicTarget)
    assert project.source_options(project.flows["hours"])["kafka.client.id"] == "mine"
    assert project.sink_options(target) == {
        "kafka.client.id": "mine",
        "kafka.bootstrap.servers": "here:9092",
        "topic": "alerts",
    }


def test_flows_add_to_the_session_they_share() -> None:
    project = parse(
        flow('spark = { "spark.sql.shuffle.partitions" = 3 }') + "\n[spark]\nspark.ui.enabled = true"
    )

    assert project.spark == {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "is not TOML"),
        ("", "there are no flows"),
        ("bootstrap_server = 'x'", "'bootstrap_server'; did you mean bootstrap_servers?"),
        ("state = 's3://bucket'", "state cannot be 's3://bucket': a directory is expected"),
        ("restarts_max = -1\n" + flow(""), "restarts_max cannot be -1: allowed is 0 to"),
        ("flow.x.from = 'a'", "'flow'; did you mean flows?"),
        ("[flows.'a/b']\nfrom='x'", "'a/b' is no name"),
        (flow("trigered = '1 second'"), "flows.one: unknown flow setting 'trigered'; did you mean trigger?"),
        (flow("trigger = 'soon'"), "flows.one: trigger cannot be 'soon': a number and a unit"),
        (
            flow("output_mode = 'complete'"),
            "output_mode cannot be 'complete': allowed is one of: append, update",
        ),
        (
            flow("options = { maxOffsetPerTrigger = 5 }"),
            "'maxOffsetPerTrigger'; did you mean maxOffsetsPerTrigger?",
        ),
        (flow("options = { subscribe = 'x' }"), "options has subscribe, which follows from"),
        ("[flows.one]\ntransform = 'm:f'\nto = { topic = 'x' }", "flows.one: from is missing"),
        (
            "[flows.one]\nfrom = 'a'\ntransform = 'm.f'\nto = { topic = 'x' }",
            "has to be of the form module:function",
        ),
        ("[flows.one]\nfrom = 'a'\ntransform = 'm:f'", "flows.one: to is missing"),
        (
            "[flows.one]\nfrom = 'a'\ntransform = 'm:f'\nto = { tabel = 'x' }",
            "'tabel'; did you mean table?",
        ),
        (
            "[flows.one]\nfrom = 'a'\ntransform = 'm:f'\nto = { topic = 'x', table = 'y' }",
            "either a topic or a table",
        ),
        ("[flows.one]\nfrom = 'a'\ntransform = 'm:f'\nto = { topic = 'a' }", "it reads what it writes"),
        (
            "[flows.one]\nfrom = 'a'\ntransform = 'm:f'\nto = { table = 't', key = 'k' }",
            "a list of column names is expected",
        ),
        (
            "[flows.one]\nfrom = 'a'\ntransform = 'm:f'\nto = { table = 't' }\n"
            "[flows.two]\nfrom = 'a'\ntransform = 'm:f'\nto = { table = 't' }",
            "flows.two: table t is written by flow one already",
        ),
        (
            flow("spark = { a = '1' }") + "\n[spark]\na = '2'",
            "a is '1' here and '2' elsewhere, and all flows share one Spark session",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_the_place(text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)

    assert str(caught.value).startswith("/projects/shop/pipeline.toml")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_project_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no pipeline.toml in .*pipeline init NAME"):
        read_project(tmp_path)


def test_a_flow_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"unknown flow 'hour'; did you mean hours\?; there are alerts, hours"
    ):
        parse(PROJECT).only(["hour"])
