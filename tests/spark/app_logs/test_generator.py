"""The log generator: the same lines for the same seed, and exact counts of what was sent."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

from app_logs.generator import Acknowledged, Line, Plan, closing_lines, lines, send
from app_logs.logs import (
    ALLOWED_LATENESS_S,
    ALLOWED_SKEW_S,
    EARLY,
    ENDPOINTS,
    LATE,
    MALFORMED,
    TRACE_TIMEOUT_S,
    VALID,
)

from penstock.client.blocking import BlockingClient
from penstock.client.offsets import LATEST, list_offsets
from penstock.testing import EmbeddedBroker
from tests.spark.app_logs.reckoning import event_ms
from tests.spark.writing import Topics

START_MS = 1_700_000_000_000
EXAMPLES = Path(__file__).parents[3] / "examples"


def some(count: int, *, seed: int = 5, plan: Plan | None = None) -> list[Line]:
    return list(lines(seed, count=count, start_ms=START_MS, plan=plan))


def test_the_same_seed_makes_the_same_lines_and_another_seed_others() -> None:
    assert some(2_000) == some(2_000)
    assert some(2_000)[:100] != some(2_000, seed=6)[:100]


def test_lines_come_in_the_order_of_their_time_with_ids_of_their_own() -> None:
    made = some(5_000)
    assert [line.sent_ms for line in made] == sorted(line.sent_ms for line in made)
    assert len({line.event["event_id"] for line in made}) == len(made)
    assert len({line.event["span_id"] for line in made}) == len(made)


def test_a_burst_comes_at_ten_times_the_rate() -> None:
    plan = Plan(events_per_second=100, burst_every_s=10, burst_s=2)
    per_second = Counter((line.sent_ms - START_MS) // 1000 for line in some(6_000, plan=plan))
    calm = sum(per_second[second] for second in range(2, 7)) / 5
    assert 80 <= calm <= 120
    assert 800 <= per_second[9] <= 1_200
    assert per_second[12] <= 120


def test_the_shares_of_what_is_spoiled_are_kept_and_each_is_what_it_says() -> None:
    plan = Plan(malformed_share=0.05, late_share=0.05, early_share=0.05)
    made = some(10_000, plan=plan)
    kinds = Counter(line.kind for line in made)
    assert all(400 <= kinds[kind] <= 600 for kind in (MALFORMED, LATE, EARLY))
    for line in made:
        age_ms = line.sent_ms - event_ms(line.event)
        match line.kind:
            case "late":
                assert age_ms > ALLOWED_LATENESS_S * 1000
            case "early":
                assert age_ms < -ALLOWED_SKEW_S * 1000
            case "valid":
                assert 0 <= age_ms < ALLOWED_LATENESS_S * 1000
                assert json.loads(line.value) == line.event


def test_only_the_failing_service_and_those_that_rely_on_it_have_many_errors() -> None:
    plan = Plan(events_per_second=1_000, burst_factor=1)
    during = [
        line.event
        for line in some(32_000, plan=plan)
        if plan.is_failing("payments", event_ms(line.event) - START_MS)
    ]

    def error_share(service: str) -> float:
        statuses = [event["status"] for event in during if event["service"] == service]
        return sum(status >= 500 for status in statuses) / len(statuses)

    assert error_share("payments") > 0.4
    assert error_share("catalogue") < 0.05


def test_calls_are_those_of_the_graph_and_counted_by_the_caller() -> None:
    plan = Plan(malformed_share=0, late_share=0, early_share=0, unsent_share=0)
    made = some(3_000, plan=plan)
    events = [line.event for line in made]
    by_span = {event["span_id"]: event for event in events}
    children = Counter(event["parent_span_id"] for event in events)
    for event in events:
        caller = by_span.get(event["parent_span_id"])
        if caller is not None:
            allowed = {each[:2] for each in ENDPOINTS[caller["service"], caller["endpoint"]].calls}
            assert (event["service"], event["endpoint"]) in allowed
            if event_ms(caller) < made[-1].sent_ms - 1_000:  # else some may not have been sent yet
                assert children[caller["span_id"]] == caller["calls"]


def test_the_closing_request_is_whole_and_after_every_timeout() -> None:
    closing = closing_lines(5, after_ms=START_MS)
    assert {line.kind for line in closing} == {VALID}
    assert len(closing) == 1 + sum(line.event["calls"] for line in closing)
    assert all(event_ms(line.event) > START_MS + TRACE_TIMEOUT_S * 1000 for line in closing)


def count_in(blocking: BlockingClient, topic: str, partitions: int) -> int:
    from penstock.base.ids import TopicPartition

    wanted = {TopicPartition(topic, number): LATEST for number in range(partitions)}
    found = blocking.run(list_offsets(blocking.client, wanted))
    return sum(each.offset for each in found.values())


def test_what_was_acknowledged_is_what_the_topic_has(broker: EmbeddedBroker, topic: str) -> None:
    Topics(broker.bootstrap_servers).create(topic, 3)
    counted = Acknowledged()
    with BlockingClient(broker.bootstrap_servers) as blocking:
        made = lines(3, count=9_000, start_ms=START_MS)
        blocking.run(
            send(
                blocking.client,
                made,
                topic=topic,
                paced=False,
                duration_s=20,
                acknowledged=counted,
                closing_seed=3,
            )
        )
        assert counted.lines == counted.kinds.total() == count_in(blocking, topic, 3)
    in_time = [line for line in some(9_000, seed=3) if line.sent_ms < some(1, seed=3)[0].sent_ms + 20_000]
    assert len(in_time) < 9_000
    expected = Counter(line.kind for line in in_time)
    expected[VALID] += len(closing_lines(3, after_ms=START_MS))
    assert counted.kinds == expected


def test_the_program_keeps_its_rate_ends_in_time_and_prints_what_was_acknowledged(
    broker: EmbeddedBroker, topic: str
) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "app_logs.generator", "--bootstrap-servers", broker.bootstrap_servers),
            *("--topic", topic, "--partitions", "2", "--rate", "500", "--duration", "1.5"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    last = json.loads(ran.stdout.splitlines()[-1])
    assert 500 <= last["acknowledged"] <= 1_000
    with BlockingClient(broker.bootstrap_servers) as blocking:
        assert count_in(blocking, topic, 2) == last["acknowledged"]


def test_without_a_count_lines_have_no_end() -> None:
    assert len(list(islice(lines(1, start_ms=START_MS), 3_000))) == 3_000
