"""`penstock broker`: list, describe, config, drain, undrain."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.cli.configs import add_config_arguments, run_config
from penstock.cli.output import count_of, format_bytes, json_line, print_json, print_lines, table
from penstock.cli.parsing import Parser, add_verb, add_verbs, finish_verb, not_negative, run_verb
from penstock.cli.progress import Progress
from penstock.cli.session import connected
from penstock.client.blocking import BlockingClient
from penstock.client.brokers import BrokerState, describe_brokers, mark_draining
from penstock.client.configs import Resource, ResourceType

run = run_verb

_LOOK_EVERY_S = 0.5


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    finish_verb(
        add_verb(verbs, "list", "list the brokers with their leaders, replicas and disk usage", "[options]"),
        _list,
    )
    verb = add_verb(verbs, "describe", "show one broker, its disk and its partitions", "BROKER [options]")
    verb.add_argument("broker", type=not_negative, metavar="BROKER", help="its node id")
    finish_verb(verb, _describe)
    verb = add_verb(
        verbs,
        "config",
        "show effective settings and where they come from; set some",
        "BROKER [CONFIG ...] [options]",
    )
    verb.add_argument("broker", type=not_negative, metavar="BROKER", help="its node id")
    add_config_arguments(verb)
    finish_verb(verb, _config)
    verb = add_verb(
        verbs, "drain", "move leaders, then replicas off a broker; wait until it is empty", "BROKER [options]"
    )
    verb.add_argument("broker", type=not_negative, metavar="BROKER", help="its node id")
    verb.add_argument("--no-wait", action="store_true", help="return at once; draining goes on")
    finish_verb(verb, _drain)
    verb = add_verb(
        verbs, "undrain", "stop draining: the broker gets replicas and leaders again", "BROKER [options]"
    )
    verb.add_argument("broker", type=not_negative, metavar="BROKER", help="its node id")
    finish_verb(verb, _undrain)


def _list(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        states = blocking.run(describe_brokers(blocking.client))
    if arguments.json:
        print_json([_as_json(state) for state in states])
    else:
        print_lines(
            table(
                ("BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS", "SIZE"),
                [
                    (
                        state.node_id,
                        None if state.address is None else str(state.address),
                        state.rack,
                        _state(state),
                        state.leads,
                        len(state.replicas),
                        None if state.disk is None else format_bytes(state.disk.size),
                    )
                    for state in states
                ],
            )
        )
    return 0


def _describe(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        state = _find(blocking.run(describe_brokers(blocking.client)), arguments.broker)
    if arguments.json:
        print_json({**_as_json(state), "topics": dict(_by_topic(state))})
    else:
        print_lines(_as_text(state))
    return 0


def _config(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        known = [each.node_id for each in blocking.run(blocking.client.brokers())]
        if arguments.broker not in known:
            raise _no_such_broker(arguments.broker, known)
        return run_config(arguments, blocking, Resource(ResourceType.BROKER, str(arguments.broker)))


def _as_text(state: BrokerState) -> Iterator[str]:
    address = "" if state.address is None else f" at {state.address}"
    rack = "" if state.rack is None else f", rack {state.rack}"
    yield f"broker {state.node_id}{address}{rack}: {_state(state)}{', controller' * state.is_controller}"
    yield f"leads {state.leads:,} of {count_of(len(state.replicas), 'replica')}"
    if state.disk is not None:
        room = f", {format_bytes(state.disk.usable)} free" if state.disk.usable >= 0 else ""
        yield f"{format_bytes(state.disk.size)} on disk{room}"
    if state.replicas:
        yield ""
        yield from table(
            ("TOPIC", "REPLICAS", "LEADS"),
            [(topic, counts["replicas"], counts["leads"]) for topic, counts in _by_topic(state)],
            indent="  ",
        )


def _by_topic(state: BrokerState) -> list[tuple[str, dict[str, int]]]:
    replicas = Counter(replica.topic for replica in state.replicas)
    leads = Counter(replica.topic for replica in state.replicas if replica.partition.leader == state.node_id)
    return [(topic, {"replicas": replicas[topic], "leads": leads[topic]}) for topic in sorted(replicas)]


def _state(state: BrokerState) -> str:
    if not state.is_alive:
        return "away"
    return "draining" if state.is_draining else "serving"


def _as_json(state: BrokerState) -> dict[str, object]:
    return {
        "id": state.node_id,
        "address": None if state.address is None else str(state.address),
        "rack": state.rack,
        "state": _state(state),
        "controller": state.is_controller,
        "leads": state.leads,
        "replicas": len(state.replicas),
        "size_bytes": None if state.disk is None else state.disk.size,
        "free_bytes": None if state.disk is None or state.disk.usable < 0 else state.disk.usable,
    }


def _find(states: Sequence[BrokerState], node_id: int) -> BrokerState:
    for state in states:
        if state.node_id == node_id:
            return state
    raise _no_such_broker(node_id, [state.node_id for state in states])


def _no_such_broker(node_id: int, known: Sequence[int]) -> UserError:
    return UserError(f"there is no broker {node_id}; the cluster has {', '.join(map(str, known))}")


# Draining.


def takers(states: Sequence[BrokerState], node_id: int) -> list[BrokerState]:
    """The brokers that could take another broker's replicas."""
    return [
        state for state in states if state.is_alive and not state.is_draining and state.node_id != node_id
    ]


class Left(NamedTuple):
    """The replicas that a draining broker still has."""

    partitions: int
    leads: int
    size: int
    stranded: int  # partitions with as many replicas as there are brokers: they cannot move

    @classmethod
    def of(cls, states: Sequence[BrokerState], node_id: int) -> "Left":
        state = _find(states, node_id)
        others = len(takers(states, node_id))
        stranded = sum(
            len(replica.partition.replicas) > others and not replica.is_moving for replica in state.replicas
        )
        # The files of a removed replica are deleted a moment later.
        size = state.size if state.replicas else 0
        return cls(len(state.replicas), state.leads, size, stranded)

    @property
    def is_stuck(self) -> bool:
        """Whether only partitions that cannot move are left."""
        return self.stranded == self.partitions and not self.leads

    def text(self, seconds_left: int | None) -> str:
        parts = [
            f"{count_of(self.partitions, 'partition')} left",
            f"leads {self.leads:,}",
            format_bytes(self.size),
        ]
        if seconds_left is not None:
            parts.append(f"about {_duration(seconds_left)} to go")
        return ", ".join(parts)


def _drain(arguments: Namespace) -> int:
    node_id = arguments.broker
    with connected(arguments) as blocking:
        states = blocking.run(describe_brokers(blocking.client))
        _find(states, node_id)
        if not takers(states, node_id):
            raise UserError(
                f"broker {node_id} cannot be drained: no other broker could take its replicas; start one"
            )
        if not any(each.balances for each in states):
            raise UserError(
                "automatic balancing is off, so nothing would move: set penstock.balance.enable=true, or "
                "move replicas with `penstock topic move`"
            )
        blocking.run(mark_draining(blocking.client, node_id, draining=True))
        if arguments.no_wait:
            _say(arguments, f"broker {node_id} is being drained", {"broker": node_id, "draining": True})
            return 0
        return _watch(blocking, arguments)


def _watch(blocking: BlockingClient, arguments: Namespace) -> int:
    """Show the progress until the broker has no replicas."""
    node_id, client = arguments.broker, blocking.client
    progress = Progress(watched=sys.stderr.isatty() and not arguments.json)
    pace: Pace | None = None
    left: Left | None = None
    while True:
        before = left
        left = Left.of(blocking.run(describe_brokers(client)), node_id)
        pace = pace or Pace(left, client.loop.time())
        seconds_left = pace.seconds_left(left, client.loop.time())
        if not left.partitions:
            progress.clear()
            _say(arguments, f"broker {node_id} is empty", {"broker": node_id, **left._asdict(), "done": True})
            return 0
        # Seen twice: a reassignment that is just ending looks like that for a moment.
        if left.is_stuck and before is not None and before.is_stuck:
            progress.clear()
            raise UserError(
                f"{count_of(left.stranded, 'partition')} of broker {node_id} cannot go anywhere: they have as many "
                "replicas as there are brokers; start another broker, and it goes on"
            )
        if progress.is_watched:
            progress.show(left.text(seconds_left))
        elif before is None or left.partitions != before.partitions:
            _say(
                arguments,
                left.text(seconds_left),
                {"broker": node_id, **left._asdict(), "seconds_left": seconds_left, "done": False},
            )
        blocking.run(client.loop.sleep(_LOOK_EVERY_S))


class Pace:
    """Estimates the time left from the progress so far."""

    def __init__(self, first: Left, now: float) -> None:
        self._first = first
        self._began_at = now

    def seconds_left(self, left: Left, now: float) -> int | None:
        """By bytes if there are some, else by partitions; None while nothing has moved."""
        for before, after in ((self._first.size, left.size), (self._first.partitions, left.partitions)):
            if before > after:
                return round((now - self._began_at) * after / (before - after))
        return None


def _undrain(arguments: Namespace) -> int:
    node_id = arguments.broker
    with connected(arguments) as blocking:
        _find(blocking.run(describe_brokers(blocking.client)), node_id)
        blocking.run(mark_draining(blocking.client, node_id, draining=False))
    _say(arguments, f"broker {node_id} gets its share again", {"broker": node_id, "draining": False})
    return 0


def _say(arguments: Namespace, text: str, document: dict[str, object]) -> None:
    sys.stdout.write((json_line(document) if arguments.json else text) + "\n")
    sys.stdout.flush()


def _duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{round(seconds / 3600)} h"
