"""`penstock topic`: list, describe, create, alter, config, purge, move, delete."""

from argparse import Namespace

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import format_id
from penstock.cli.configs import add_config_arguments, run_config
from penstock.cli.confirm import add_yes, confirm
from penstock.cli.output import count_of, print_json, print_lines, table
from penstock.cli.parsing import (
    Parser,
    UsageError,
    add_verb,
    add_verbs,
    finish_verb,
    name_and_value,
    partition_list,
    positive,
    run_verb,
)
from penstock.cli.session import connected, find_topics, unknown_topic
from penstock.cli.topic_description import describe, description_as_json, print_description
from penstock.cli.topic_move import broker_list, move, topic_and_partitions
from penstock.cli.topic_purge import purge
from penstock.client.client import Client
from penstock.client.cluster import KnownTopic
from penstock.client.configs import Resource, ResourceType, alter_configs
from penstock.client.errors import AnsweredError
from penstock.client.topics import BROKER_DEFAULT, NewTopic, create_partitions, create_topics, delete_topics

run = run_verb


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    verb = add_verb(verbs, "list", "list the cluster's topics", "[options]")
    verb.add_argument("--internal", action="store_true", help="list the cluster's own topics too")
    finish_verb(verb, _list)

    verb = add_verb(
        verbs,
        "describe",
        "show partitions, offsets, sizes and configs",
        "[TOPIC ...] [options]",
    )
    verb.add_argument(
        "names",
        metavar="TOPIC",
        nargs="*",
        default=[],
        help="which; all but internal ones if none is named",
    )
    finish_verb(verb, _describe)

    verb = add_verb(verbs, "create", "create a topic", "TOPIC [options]")
    verb.add_argument("name", metavar="TOPIC", help="letters, digits, '.', '_' and '-'")
    _add_counts(verb, "how many (default: the broker's num.partitions)")
    verb.add_argument(
        "--replication-factor",
        type=positive,
        metavar="N",
        default=BROKER_DEFAULT,
        help="replicas of each partition",
    )
    _add_config(verb)
    verb.add_argument("--if-not-exists", action="store_true", help="do nothing if it exists already")
    verb.add_argument("--validate-only", action="store_true", help="only check whether it could be created")
    finish_verb(verb, _create)

    verb = add_verb(verbs, "alter", "add partitions, set configs or reset them", "TOPIC [options]")
    verb.add_argument("name", metavar="TOPIC", help="which")
    _add_counts(verb, "grow to so many partitions")
    _add_config(verb)
    verb.add_argument(
        "--delete-config",
        metavar="NAME",
        action="append",
        default=[],
        help="remove a config, so that the broker's default holds; may be repeated",
    )
    finish_verb(verb, _alter)

    verb = add_verb(
        verbs,
        "config",
        "show effective configs and where they come from; set some",
        "TOPIC [CONFIG ...] [options]",
    )
    verb.add_argument("name", metavar="TOPIC", help="which")
    add_config_arguments(verb)
    finish_verb(verb, _config)

    verb = add_verb(verbs, "purge", "delete records; the topic stays", "TOPIC [options]")
    verb.add_argument("name", metavar="TOPIC", help="which")
    verb.add_signed_argument(
        "--before",
        metavar="PLACE",
        help="only those before end (default), an offset, -10, -1h, 2026-11-16T08:30",
    )
    verb.add_argument(
        "-p", "--partition", type=partition_list, metavar="LIST", help="only of these, as in 0,2,5-7"
    )
    add_yes(verb)
    finish_verb(verb, purge)

    verb = add_verb(
        verbs,
        "move",
        "reassign partitions to other brokers, and wait until it is done",
        "TOPIC[:PARTITIONS] --to BROKERS | --cancel [options]",
    )
    verb.add_argument(
        "where",
        type=topic_and_partitions,
        metavar="TOPIC[:PARTITIONS]",
        help="a topic, or some of its partitions as in orders:0,2",
    )
    verb.add_argument(
        "--to",
        type=broker_list,
        metavar="BROKERS",
        help="the replicas of each partition, as in 1,2,3; the brokers take turns as preferred leader",
    )
    verb.add_argument("--cancel", action="store_true", help="cancel the reassignments in progress")
    verb.add_argument("--no-wait", action="store_true", help="return at once; the reassignment goes on")
    finish_verb(verb, move)

    verb = add_verb(verbs, "delete", "delete topics and all their records", "TOPIC ... [options]")
    verb.add_argument("names", metavar="TOPIC", nargs="+", help="which")
    add_yes(verb)
    verb.add_argument("--if-exists", action="store_true", help="do nothing if it does not exist")
    finish_verb(verb, _delete)


def _add_counts(verb: Parser, text: str) -> None:
    verb.add_argument("--partitions", type=positive, metavar="N", default=BROKER_DEFAULT, help=text)


def _add_config(verb: Parser) -> None:
    verb.add_argument(
        "--config",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a topic config; may be repeated",
    )


def _list(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        topics = blocking.run(_visible_topics(blocking.client, internal=arguments.internal))
    if arguments.json:
        print_json(
            [
                {
                    "name": topic.name,
                    "id": format_id(topic.topic_id),
                    "partitions": len(topic.partitions),
                    "replication_factor": _replication_factor(topic),
                    "internal": topic.is_internal,
                }
                for topic in topics
            ]
        )
    else:
        rows = ((topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics)
        print_lines(table(("TOPIC", "PARTITIONS", "REPLICAS"), rows))
    return 0


def _describe(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        client = blocking.client
        if arguments.names:
            topics = blocking.run(find_topics(client, arguments.names))
        else:
            topics = blocking.run(_visible_topics(client, internal=False))
        descriptions = blocking.run(describe(client, topics))
    if arguments.json:
        print_json([description_as_json(each) for each in descriptions])
    else:
        print_description(descriptions)
    return 0


def _create(arguments: Namespace) -> int:
    new = NewTopic(arguments.name, arguments.partitions, arguments.replication_factor, dict(arguments.config))
    with connected(arguments) as blocking:
        results = blocking.run(create_topics(blocking.client, [new], validate_only=arguments.validate_only))
    result = results[new.name]
    existed = isinstance(result, Refusal) and result.code == ErrorCode.TOPIC_ALREADY_EXISTS
    if existed and arguments.if_not_exists:
        return _report(arguments, f"topic {new.name} exists already", name=new.name, created=False)
    if isinstance(result, Refusal):
        raise AnsweredError(result, f"cannot create topic {new.name!r}")
    if arguments.validate_only:
        return _report(arguments, f"topic {new.name} could be created", name=new.name, created=False)
    partitions = count_of(result.partitions, "partition") if result.partitions > 0 else "its partitions"
    return _report(
        arguments,
        f"created topic {new.name} with {partitions}",
        name=new.name,
        created=True,
        id=format_id(result.topic_id),
        partitions=result.partitions,
        replication_factor=result.replication_factor,
    )


def _alter(arguments: Namespace) -> int:
    name = arguments.name
    changes_configs = bool(arguments.config or arguments.delete_config)
    if arguments.partitions == BROKER_DEFAULT and not changes_configs:
        raise UsageError("nothing to alter: give --partitions, --config or --delete-config")
    with connected(arguments) as blocking:
        blocking.run(find_topics(blocking.client, [name]))
        if changes_configs:
            blocking.run(
                alter_configs(
                    blocking.client,
                    Resource(ResourceType.TOPIC, name),
                    set_to=dict(arguments.config),
                    reset=arguments.delete_config,
                )
            )
        if arguments.partitions != BROKER_DEFAULT:
            refusal = blocking.run(create_partitions(blocking.client, {name: arguments.partitions}))[name]
            if refusal is not None:
                raise AnsweredError(refusal, f"cannot add partitions to topic {name!r}")
    return _report(arguments, f"altered topic {name}", name=name, altered=True)


def _config(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        blocking.run(find_topics(blocking.client, [arguments.name]))
        return run_config(arguments, blocking, Resource(ResourceType.TOPIC, arguments.name))


def _delete(arguments: Namespace) -> int:
    names = list(dict.fromkeys(arguments.names))
    with connected(arguments) as blocking:
        client = blocking.client
        if arguments.if_exists:
            names = blocking.run(_existing(client, names))
        else:
            blocking.run(find_topics(client, names))
        if names:
            confirm(
                arguments, f"delete {_named(names)} and all {'its' if len(names) == 1 else 'their'} records"
            )
        results = blocking.run(delete_topics(client, names)) if names else {}
        for name, refusal in results.items():
            if refusal is None or (refusal.code in _NO_SUCH_TOPIC and arguments.if_exists):
                continue
            if refusal.code in _NO_SUCH_TOPIC:
                raise blocking.run(unknown_topic(client, name))
            raise AnsweredError(refusal, f"cannot delete topic {name!r}")
    deleted = [name for name, refusal in results.items() if refusal is None]
    if arguments.json:
        print_json({"deleted": deleted})
    else:
        print_lines(f"deleted topic {name}" for name in deleted)
    return 0


_NO_SUCH_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def _named(names: list[str]) -> str:
    return f"topic {names[0]}" if len(names) == 1 else f"topics {', '.join(names)}"


async def _existing(client: Client, names: list[str]) -> list[str]:
    return [
        topic.name
        for topic in await client.refresh(names)
        if topic.refusal is None or topic.refusal.code not in _NO_SUCH_TOPIC
    ]


def _report(arguments: Namespace, sentence: str, **facts: object) -> int:
    if arguments.json:
        print_json(facts)
    else:
        print_lines([sentence])
    return 0


async def _visible_topics(client: Client, *, internal: bool) -> list[KnownTopic]:
    topics = await client.refresh(None)
    return sorted(topic for topic in topics if internal or not topic.is_internal)


def _replication_factor(topic: KnownTopic) -> int:
    return max((len(each.replicas) for each in topic.partitions), default=0)
