"""`penstock txn`: list, describe, abort."""

import time
from argparse import ArgumentTypeError, Namespace

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.confirm import add_yes, confirm
from penstock.cli.output import count_of, print_json, print_lines, table
from penstock.cli.parsing import (
    Parser,
    UsageError,
    add_verb,
    add_verbs,
    finish_verb,
    not_negative,
    one_of,
    run_verb,
)
from penstock.cli.session import connected, find_topics, unknown
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.transactions import (
    TRANSACTION_STATES,
    ActiveProducer,
    TransactionDescription,
    abort_hanging,
    describe_producers,
    describe_transactions,
    fence_producer,
    list_transactions,
)

_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


run = run_verb


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    verb = add_verb(verbs, "list", "list transactional ids and their states", "[options]")
    verb.add_argument(
        "--state",
        action="append",
        type=_state,
        default=[],
        metavar="STATE",
        help="only ids in this state, as Ongoing; may be repeated",
    )
    verb.add_argument("--open", action="store_true", help="only ids with an open transaction")
    verb.add_argument(
        "--older-than",
        type=_seconds,
        metavar="TIME",
        help="only transactions open for longer, as 90s, 15m or 1h",
    )
    finish_verb(verb, _list)

    verb = add_verb(
        verbs, "describe", "show a transactional id's producer and partitions", "ID ... [options]"
    )
    verb.add_argument("ids", metavar="ID", nargs="+", help="which")
    finish_verb(verb, _describe)

    verb = add_verb(
        verbs, "abort", "abort a hanging transaction", "ID | --partition TOPIC-N --producer-id P [options]"
    )
    verb.add_argument(
        "id", metavar="ID", nargs="?", help="abort the open transaction of this id, and fence its producer"
    )
    verb.add_argument(
        "--partition",
        type=_partition,
        metavar="TOPIC-N",
        help="abort a transaction in this partition that its coordinator does not have any more",
    )
    verb.add_argument(
        "--producer-id",
        type=not_negative,
        metavar="P",
        help="the producer of the transaction; `txn describe` shows it",
    )
    add_yes(verb)
    finish_verb(verb, _abort)


def _state(text: str) -> str:
    return one_of(text, "transaction state", TRANSACTION_STATES)


def _list(arguments: Namespace) -> int:
    states = [*arguments.state, *(_OPEN if arguments.open else ())]
    with connected(arguments) as blocking:
        older_than_ms = -1 if arguments.older_than is None else round(arguments.older_than * 1000)
        found = blocking.run(list_transactions(blocking.client, states=states, older_than_ms=older_than_ms))
    if arguments.json:
        print_json(
            [
                {"id": each.transactional_id, "producer_id": each.producer_id, "state": each.state}
                for each in found
            ]
        )
    else:
        print_lines(
            table(
                ("TRANSACTIONAL ID", "PRODUCER ID", "STATE"),
                found and [(each.transactional_id, each.producer_id, each.state) for each in found],
            )
        )
    return 0


def _describe(arguments: Namespace) -> int:
    now_ms = time.time_ns() // 1_000_000
    with connected(arguments) as blocking:
        found = blocking.run(_find(blocking.client, arguments.ids))
    if arguments.json:
        print_json([_as_json(each, now_ms) for each in found])
        return 0
    for number, each in enumerate(found):
        print_lines(["", each.transactional_id] if number else [each.transactional_id])
        facts = [
            ("state", each.state),
            ("producer", f"{each.producer_id}, epoch {each.producer_epoch}"),
            ("timeout", f"{each.timeout_ms / 1000:g} s" if each.timeout_ms >= 0 else "none"),
        ]
        if each.started_ms >= 0:
            facts.append(("open for", f"{max(0, now_ms - each.started_ms) / 1000:.1f} s"))
        if each.partitions:
            facts.append(("writes to", ", ".join(str(partition) for partition in sorted(each.partitions))))
        print_lines(f"  {name:<9}  {value}" for name, value in facts)
    return 0


def _as_json(each: TransactionDescription, now_ms: int) -> dict[str, object]:
    return {
        "id": each.transactional_id,
        "state": each.state,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "timeout_ms": each.timeout_ms,
        "open_for_ms": max(0, now_ms - each.started_ms) if each.started_ms >= 0 else None,
        "partitions": [str(partition) for partition in sorted(each.partitions)],
    }


def _abort(arguments: Namespace) -> int:
    by_partition = arguments.partition is not None and arguments.producer_id is not None
    if (arguments.id is None) != by_partition:
        raise UsageError("give either ID, or --partition and --producer-id")
    with connected(arguments) as blocking:
        if arguments.id is None:
            hanging = blocking.run(_hanging(blocking.client, arguments.partition, arguments.producer_id))
            confirm(
                arguments,
                f"abort the transaction of producer {arguments.producer_id} in {arguments.partition}",
            )
            blocking.run(abort_hanging(blocking.client, arguments.partition, hanging))
            return _report(
                arguments,
                f"aborted the transaction of producer {arguments.producer_id} in {arguments.partition}",
                partition=str(arguments.partition),
                producer_id=arguments.producer_id,
            )
        (described,) = blocking.run(_find(blocking.client, [arguments.id]))
        confirm(arguments, f"abort the transaction of {arguments.id} and fence its producer")
        blocking.run(fence_producer(blocking.client, arguments.id))
    had = (
        "had none open"
        if described.started_ms < 0
        else f"in {count_of(len(described.partitions), 'partition')}"
    )
    return _report(
        arguments,
        f"aborted the transaction of {arguments.id} ({had}) and fenced its producer",
        id=arguments.id,
        was_open=described.started_ms >= 0,
    )


def _report(arguments: Namespace, sentence: str, **facts: object) -> int:
    if arguments.json:
        print_json(facts)
    else:
        print_lines([sentence])
    return 0


async def _find(client: Client, ids: list[str]) -> list[TransactionDescription]:
    found = await describe_transactions(client, ids)
    described = []
    for name in dict.fromkeys(ids):
        each = found[name]
        if isinstance(each, Refusal):
            if each.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise await _unknown_id(client, name)
            raise AnsweredError(each, f"describe transactional id {name!r}")
        described.append(each)
    return described


async def _unknown_id(client: Client, name: str) -> UserError:
    existing = [each.transactional_id for each in await list_transactions(client)]
    return unknown("transactional id", name, existing, "penstock txn list")


async def _hanging(client: Client, partition: TopicPartition, producer_id: int) -> ActiveProducer:
    """The producer, if it has an open transaction in the partition; else UserError."""
    (topic,) = await find_topics(client, [partition.topic])
    if partition.partition >= len(topic.partitions):
        last = len(topic.partitions) - 1
        raise UserError(f"topic {topic.name} has no partition {partition.partition}; the last one is {last}")
    producers = (await describe_producers(client, [partition]))[partition]
    if isinstance(producers, Refusal):
        raise AnsweredError(producers, f"describe the producers of {partition}")
    return _with_open_transaction(partition, producers, producer_id)


def _with_open_transaction(
    partition: TopicPartition, producers: list[ActiveProducer], producer_id: int
) -> ActiveProducer:
    for producer in producers:
        if producer.producer_id == producer_id and producer.transaction_start >= 0:
            return producer
    have = [str(each.producer_id) for each in producers if each.transaction_start >= 0]
    hint = f"producers with an open transaction: {', '.join(have)}" if have else "no producer has one"
    raise UserError(f"producer {producer_id} has no transaction open in {partition}; {hint}")


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    if not topic or not number.isdigit():
        raise ArgumentTypeError(f"{text!r} is no partition like orders-0")
    return TopicPartition(topic, int(number))


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    try:
        return float(text[:-1]) * units[text[-1]]
    except (KeyError, ValueError, IndexError):
        raise ArgumentTypeError(f"{text!r} is no time like 90s, 15m or 1h") from None
