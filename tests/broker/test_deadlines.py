"""No delayed response is sent before its timeout, by the client's clock."""

import time
from collections.abc import Callable

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from tests.apis.groups import new_group, stable
from tests.broker.controlled import ControlledBroker
from tests.group_messages import joining
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request

TRIES = 40


def early_ms(wait_ms: int, ask: Callable[[], object]) -> list[float]:
    """By how much answers came too early; they are asked for at any moment of a millisecond."""
    found = []
    for number in range(TRIES):
        until = time.monotonic() + number / TRIES / 1000
        while time.monotonic() < until:
            pass
        began = time.monotonic()
        ask()
        waited_ms = (time.monotonic() - began) * 1000
        if waited_ms < wait_ms:
            found.append(wait_ms - waited_ms)
    return found


def test_a_long_poll_is_never_answered_before_its_time():
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        assert early_ms(11, lambda: client.ask(fetch_request("t", 0, max_wait_ms=11), 12)) == []


def test_a_group_waits_for_its_first_members_for_all_of_the_initial_rebalance_delay():
    settings = {"group.initial.rebalance.delay.ms": "11"}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:

        def first_join() -> None:
            assert client.ask(joining(groups.pop(), members.pop()), 9).error_code == 0

        groups, members = [], []
        for _ in range(TRIES):
            groups.append(new_group(client))
            members.append(client.ask(joining(groups[-1]), 9).member_id)
        assert early_ms(11, first_join) == []


def test_a_heartbeat_response_is_delayed_for_all_of_its_wait():
    settings = {"group.initial.rebalance.delay.ms": "0", "penstock.group.heartbeat.wait.ms": "11"}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        introduction = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="1")
        assert client.ask(introduction, 3).error_code == 0
        group = new_group(client)
        member_id = stable(client, group)
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
        assert early_ms(11, lambda: client.ask(request, 4)) == []


def test_a_produce_request_does_not_time_out_early():
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("slow", flush_messages="1")
        broker.gate.hold("slow-0")
        request = produce_request("slow", batch_of(b"x"))
        request.timeout_ms = 11

        def timed_out() -> None:
            partition = client.ask(request, 12).responses[0].partition_responses[0]
            assert partition.error_code == ErrorCode.REQUEST_TIMED_OUT

        assert early_ms(11, timed_out) == []
