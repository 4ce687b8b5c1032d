"""`penstock topic move`: reassigns partitions and shows the progress, or cancels reassignments."""

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence

from penstock.base.errors import Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.output import count_of, format_bytes, json_line, print_lines
from penstock.cli.parsing import UsageError, partition_list
from penstock.cli.progress import Progress
from penstock.cli.session import connected, find_partitions
from penstock.client.blocking import BlockingClient
from penstock.client.brokers import cluster_balances
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.reassignments import Reassignment, alter_reassignments, list_reassignments
from penstock.client.topics import replica_sizes

_LOOK_EVERY_S = 0.5
_METADATA_LAG_MAX_S = 5.0

Targets = Mapping[TopicPartition, Sequence[int]]


def broker_list(text: str) -> list[int]:
    """Brokers as in 1,2,3."""
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no list of brokers like 1,2,3") from None
    if len(set(brokers)) < len(brokers):
        raise ArgumentTypeError(f"{text!r} names a broker twice")
    return brokers


def topic_and_partitions(text: str) -> tuple[str, list[int] | None]:
    """A topic, or some of its partitions as in orders:0,2."""
    topic, colon, partitions = text.partition(":")
    if not topic or (colon and not partitions):
        raise ArgumentTypeError(f"{text!r} is neither a topic nor partitions like orders:0,2")
    return topic, partition_list(partitions) if colon else None


def spread(partitions: Sequence[TopicPartition], brokers: Sequence[int]) -> dict[TopicPartition, list[int]]:
    """The replicas of each partition: all of the brokers, each in turn as the preferred leader."""
    turns = (number % len(brokers) for number in range(len(partitions)))
    return {each: [*brokers[turn:], *brokers[:turn]] for each, turn in zip(partitions, turns, strict=True)}


def move(arguments: Namespace) -> int:
    if (arguments.to is None) != arguments.cancel:
        raise UsageError("--to BROKERS or --cancel is required, and not both")
    topic, chosen = arguments.where
    with connected(arguments) as blocking:
        client = blocking.client
        partitions = blocking.run(find_partitions(client, topic, chosen))
        if arguments.cancel:
            return _cancel(arguments, blocking, topic, partitions)
        targets = spread(partitions, arguments.to)
        blocking.run(_begin(client, targets))
        if blocking.run(cluster_balances(client)):
            sys.stderr.write(
                "penstock: automatic balancing is on and may move it back; penstock.balance.enable=false "
                "switches it off\n"
            )
        if arguments.no_wait:
            _say(
                arguments,
                f"the move of {_moves(topic, targets)} is in progress",
                _fields(topic, targets, done=False),
            )
            return 0
        _watch(arguments, blocking, topic, targets)
    return 0


async def _begin(client: Client, targets: Targets) -> None:
    _raise_refused(await alter_reassignments(client, targets), "move")


def _raise_refused(results: Mapping[TopicPartition, Refusal | None], verb: str) -> None:
    for partition, refusal in results.items():
        if refusal is not None:
            raise AnsweredError(refusal, f"cannot {verb} {partition}")


def _cancel(
    arguments: Namespace, blocking: BlockingClient, topic: str, partitions: Sequence[TopicPartition]
) -> int:
    moving = blocking.run(list_reassignments(blocking.client, partitions))
    if moving:
        results = blocking.run(alter_reassignments(blocking.client, dict.fromkeys(moving)))
        _raise_refused(results, "cancel the move of")
    count = count_of(len(moving), "move")
    _say(
        arguments,
        f"cancelled {count} of topic {topic}",
        {"topic": topic, "cancelled": [each.partition for each in sorted(moving)]},
    )
    return 0


def _watch(arguments: Namespace, blocking: BlockingClient, topic: str, targets: Targets) -> None:
    """Show the progress until every partition has exactly its new replicas."""
    client = blocking.client
    progress = Progress(watched=sys.stderr.isatty() and not arguments.json)
    before: int | None = None
    while moving := blocking.run(list_reassignments(client, list(targets))):
        if progress.is_watched:
            progress.show(blocking.run(_so_far(client, moving)))
        elif len(moving) != before:
            told = blocking.run(_so_far(client, moving))
            _say(
                arguments,
                told,
                {"topic": topic, "moving": [each.partition for each in sorted(moving)], "done": False},
            )
        before = len(moving)
        blocking.run(client.loop.sleep(_LOOK_EVERY_S))
    progress.clear()
    blocking.run(require_moved(client, topic, targets))
    brokers = ",".join(map(str, arguments.to))
    _say(
        arguments, f"moved {_moves(topic, targets)} to brokers {brokers}", _fields(topic, targets, done=True)
    )


async def _so_far(client: Client, moving: Mapping[TopicPartition, Reassignment]) -> str:
    """How many partitions are being reassigned, and how much of them has been copied."""
    sizes = await replica_sizes(client, list(moving))
    copied = wanted = 0
    for partition, each in moving.items():
        by_broker = {replica.node_id: replica.size for replica in sizes.get(partition, ())}
        largest = max(by_broker.values(), default=0)
        wanted += largest * len(each.adding)
        copied += sum(min(largest, by_broker.get(node_id, 0)) for node_id in each.adding)
    return f"{count_of(len(moving), 'partition')} in progress, {format_bytes(copied)} of {format_bytes(wanted)} copied"


async def require_moved(
    client: Client, topic: str, targets: Targets, *, patience_s: float = _METADATA_LAG_MAX_S
) -> None:
    """Raise if a reassignment that ended was cancelled, or replaced by another one.

    The broker that is asked may not have applied yet what the controller has: it gets some time for that.
    """
    patience_ends = client.loop.time() + patience_s
    while found := await _elsewhere(client, topic, targets):
        if client.loop.time() >= patience_ends:
            partition, replicas = found
            has = ", ".join(map(str, replicas)) or "none"
            raise UserError(f"the move of {partition} was cancelled or replaced: its replicas are {has}")
        await client.loop.sleep(_LOOK_EVERY_S)


async def _elsewhere(
    client: Client, topic: str, targets: Targets
) -> tuple[TopicPartition, Sequence[int]] | None:
    """The first partition whose replicas are not its new ones, and its replicas."""
    (found,) = await client.retry(lambda: client.refresh([topic]))
    replicas = {TopicPartition(topic, each.partition): each.replicas for each in found.partitions}
    for partition, wanted in targets.items():
        if set(replicas.get(partition, ())) != set(wanted):
            return partition, replicas.get(partition, ())
    return None


def _moves(topic: str, targets: Targets) -> str:
    return f"{count_of(len(targets), 'partition')} of topic {topic}"


def _fields(topic: str, targets: Targets, *, done: bool) -> dict[str, object]:
    return {
        "topic": topic,
        "partitions": {str(each.partition): list(replicas) for each, replicas in targets.items()},
        "done": done,
    }


def _say(arguments: Namespace, text: str, document: dict[str, object]) -> None:
    print_lines([json_line(document) if arguments.json else text])
    sys.stdout.flush()
