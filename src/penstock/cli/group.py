"""`penstock group`: list, describe, reset, delete."""

import time
from argparse import Namespace

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.confirm import add_yes, confirm
from penstock.cli.group_description import describe, description_as_json, print_description
from penstock.cli.group_reset import Move, apply, plan, print_plan
from penstock.cli.output import count_of, print_json, print_lines, table
from penstock.cli.parsing import (
    Parser,
    UsageError,
    add_verb,
    add_verbs,
    finish_verb,
    one_of,
    partition_list,
    run_verb,
)
from penstock.cli.positions import parse_position
from penstock.cli.session import connected, find_partitions, unknown
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.groups import (
    GROUP_STATES,
    GROUP_TYPES,
    GroupDescription,
    delete_groups,
    describe_groups,
    list_groups,
)

_POSITIONS = "beginning, end, an offset, -10 (from the end), -1h (ago), 2026-11-16T08:30, 1763281800000ms"


run = run_verb


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    verb = add_verb(verbs, "list", "list the cluster's groups", "[options]")
    verb.add_argument(
        "--state",
        action="append",
        type=_state,
        default=[],
        metavar="STATE",
        help="only groups in this state, as Stable or Empty; may be repeated",
    )
    verb.add_argument(
        "--type",
        action="append",
        type=_type,
        default=[],
        metavar="TYPE",
        help="only groups of this type, classic or consumer; may be repeated",
    )
    finish_verb(verb, _list)

    verb = add_verb(verbs, "describe", "show members, committed offsets and lag", "[GROUP ...] [options]")
    verb.add_argument("names", metavar="GROUP", nargs="*", default=[], help="which; all if none is named")
    finish_verb(verb, _describe)

    verb = add_verb(
        verbs,
        "reset",
        "set the committed offsets of a group without members",
        "GROUP --to POSITION [options]",
    )
    verb.add_argument("name", metavar="GROUP", help="which")
    verb.add_signed_argument("--to", dest="place", metavar="POSITION", help=_POSITIONS)
    verb.add_signed_argument(
        "--by", dest="shift", type=int, metavar="N", help="move forward by N records, or back if negative"
    )
    verb.add_argument(
        "--topic",
        dest="topics",
        action="append",
        default=[],
        metavar="TOPIC",
        help="only this one, committed or not; may be repeated (default: all that are committed)",
    )
    verb.add_argument(
        "-p", "--partition", type=partition_list, metavar="LIST", help="only these, as in 0,2,5-7"
    )
    add_yes(verb)
    finish_verb(verb, _reset)

    verb = add_verb(verbs, "delete", "delete groups and their offsets", "GROUP ... [options]")
    verb.add_argument("names", metavar="GROUP", nargs="+", help="which; none of them may have members")
    add_yes(verb)
    verb.add_argument("--if-exists", action="store_true", help="do nothing if it does not exist")
    finish_verb(verb, _delete)


def _state(text: str) -> str:
    return one_of(text, "group state", GROUP_STATES)


def _type(text: str) -> str:
    return one_of(text, "group type", GROUP_TYPES)


def _list(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        groups = blocking.run(list_groups(blocking.client, states=arguments.state, types=arguments.type))
    if arguments.json:
        print_json(
            [
                {
                    "group": each.group_id,
                    "protocol": each.protocol.value,
                    "state": each.state,
                    "protocol_type": each.protocol_type,
                }
                for each in groups
            ]
        )
    else:
        print_lines(
            table(
                ("GROUP", "PROTOCOL", "STATE"),
                ((each.group_id, each.protocol.value, each.state) for each in groups),
            )
        )
    return 0


def _describe(arguments: Namespace) -> int:
    with connected(arguments) as blocking:
        client = blocking.client
        names = arguments.names or [each.group_id for each in blocking.run(list_groups(client))]
        groups = blocking.run(_find_groups(client, names))
        descriptions = blocking.run(describe(client, groups))
    if arguments.json:
        print_json([description_as_json(each) for each in descriptions])
    else:
        print_description(descriptions)
    return 0


def _reset(arguments: Namespace) -> int:
    if (arguments.place is None) == (arguments.shift is None):
        raise UsageError("either --to POSITION or --by N is required, and not both")
    if arguments.partition is not None and len(arguments.topics) != 1:
        raise UsageError("--partition needs one --topic")
    place = None
    if arguments.place is not None:
        place = parse_position(arguments.place, now_ms=time.time_ns() // 1_000_000)
    with connected(arguments) as blocking:
        client = blocking.client
        blocking.run(_require_no_members(client, arguments.name))
        chosen = blocking.run(_chosen(client, arguments.topics, arguments.partition))
        moves = blocking.run(plan(client, arguments.name, chosen, place=place, shift=arguments.shift))
        if not moves:
            raise UserError(
                f"group {arguments.name!r} has no committed offsets; name the topics with --topic"
            )
        if not arguments.json:
            print_plan(moves)
        done = False
        try:
            confirm(arguments, f"set the offsets of group {arguments.name} as shown above")
            blocking.run(apply(client, arguments.name, moves))
            done = True
        finally:
            if arguments.json:
                print_json(_reset_as_json(arguments.name, moves, done=done))
    if not arguments.json:
        print_lines([f"reset group {arguments.name}"])
    return 0


def _reset_as_json(group_id: str, moves: list[Move], *, done: bool) -> dict[str, object]:
    return {
        "group": group_id,
        "done": done,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "before": each.before,
                "after": each.after,
            }
            for each in moves
        ],
    }


def _delete(arguments: Namespace) -> int:
    names = list(dict.fromkeys(arguments.names))
    with connected(arguments) as blocking:
        client = blocking.client
        names = blocking.run(_deletable(client, names, if_exists=arguments.if_exists))
        if names:
            what = f"group {names[0]} and its" if len(names) == 1 else f"groups {', '.join(names)} and their"
            confirm(arguments, f"delete {what} committed offsets")
        results = blocking.run(delete_groups(client, names)) if names else {}
        for name, refusal in results.items():
            if refusal is None or (refusal.code == ErrorCode.GROUP_ID_NOT_FOUND and arguments.if_exists):
                continue
            if refusal.code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise blocking.run(_unknown_group(client, name))
            if refusal.code == ErrorCode.NON_EMPTY_GROUP:
                blocking.run(_require_no_members(client, name))
            raise AnsweredError(refusal, f"cannot delete group {name!r}")
    deleted = [name for name, refusal in results.items() if refusal is None]
    if arguments.json:
        print_json({"deleted": deleted})
    else:
        print_lines(f"deleted group {name}" for name in deleted)
    return 0


async def _find_groups(client: Client, names: list[str]) -> list[GroupDescription]:
    found = await describe_groups(client, names) if names else {}
    groups = []
    for name in dict.fromkeys(names):
        group = found[name]
        if isinstance(group, Refusal):
            if group.code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise await _unknown_group(client, name)
            raise AnsweredError(group, f"describe group {name!r}")
        groups.append(group)
    return groups


async def _deletable(client: Client, names: list[str], *, if_exists: bool) -> list[str]:
    """The groups that exist; UserError for one that has members, or does not exist without `if_exists`."""
    found = await describe_groups(client, names)
    deletable = []
    for name in names:
        group = found[name]
        if isinstance(group, Refusal) and group.code == ErrorCode.GROUP_ID_NOT_FOUND:
            if not if_exists:
                raise await _unknown_group(client, name)
            continue
        await _require_no_members(client, name)
        deletable.append(name)
    return deletable


async def _unknown_group(client: Client, name: str) -> UserError:
    existing = [group.group_id for group in await list_groups(client)]
    return unknown("group", name, existing, "penstock group list")


async def _require_no_members(client: Client, name: str) -> None:
    """UserError if the group has members. One that does not exist has none: its offsets can be set, too."""
    group = (await describe_groups(client, [name]))[name]
    if isinstance(group, Refusal) or not group.members:
        return
    who = ", ".join(f"{each.client_id} on {each.client_host.lstrip('/')}" for each in group.members[:3])
    rest = len(group.members) - 3
    more = f" and {rest} more" if rest > 0 else ""
    raise UserError(
        f"group {name!r} has {count_of(len(group.members), 'member')} ({who}{more}); stop them first, "
        "or they would overwrite the offsets"
    )


async def _chosen(client: Client, names: list[str], partitions: list[int] | None) -> list[TopicPartition]:
    chosen: list[TopicPartition] = []
    for name in dict.fromkeys(names):
        chosen += await find_partitions(client, name, partitions)
    return chosen
