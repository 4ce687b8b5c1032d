"""`penstock topic purge`: deletes the records before a position, after showing how many. The topic stays."""

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.cli.confirm import confirm
from penstock.cli.output import count_of, print_json, print_lines, table
from penstock.cli.positions import End, Position, parse_position, resolve
from penstock.cli.session import connected, find_partitions
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.topics import delete_records


class PurgedPartition(NamedTuple):
    """One partition: its log start offset before and after."""

    partition: TopicPartition
    before: int
    after: int

    @property
    def records(self) -> int:
        """An upper bound: offsets without a record, after compaction or for transaction markers, count too."""
        return self.after - self.before


def purge(arguments: Namespace) -> int:
    position: Position = End.END
    if arguments.before is not None:
        position = parse_position(arguments.before, now_ms=time.time_ns() // 1_000_000)
    with connected(arguments) as blocking:
        client = blocking.client
        partitions = blocking.run(find_partitions(client, arguments.name, arguments.partition))
        cuts = blocking.run(_plan(client, partitions, position))
        count = count_of(sum(cut.records for cut in cuts), "record")
        done = not cuts
        try:
            if cuts:
                if not arguments.json:
                    _print(cuts)
                confirm(arguments, f"delete {count} of topic {arguments.name}")
                blocking.run(_cut(client, cuts))
                done = True
        finally:
            if arguments.json:
                print_json(_as_json(arguments.name, cuts, done=done))
    if not arguments.json:
        nothing = f"topic {arguments.name} has no records to delete"
        print_lines([f"deleted {count} of topic {arguments.name}" if cuts else nothing])
    return 0


async def _plan(
    client: Client, partitions: Sequence[TopicPartition], position: Position
) -> list[PurgedPartition]:
    starts = await resolve(client, partitions, End.BEGINNING)
    ends = await resolve(client, partitions, position)
    return [
        PurgedPartition(each, starts[each], ends[each]) for each in partitions if ends[each] > starts[each]
    ]


async def _cut(client: Client, cuts: Sequence[PurgedPartition]) -> None:
    results = await delete_records(client, {cut.partition: cut.after for cut in cuts})
    for partition, result in results.items():
        if isinstance(result, Refusal):
            message = result.message
            if result.code == ErrorCode.POLICY_VIOLATION and not message:
                message = "the topic's cleanup.policy does not include delete"
            raise AnsweredError(Refusal(result.code, message), f"cannot delete records of {partition}")


def _print(cuts: Sequence[PurgedPartition]) -> None:
    rows = [(cut.partition.partition, cut.before, cut.after, cut.records) for cut in cuts]
    print_lines(table(("PARTITION", "FROM", "TO", "RECORDS"), rows))


def _as_json(topic: str, cuts: Sequence[PurgedPartition], *, done: bool) -> dict[str, object]:
    return {
        "topic": topic,
        "done": done,
        "partitions": [
            {
                "partition": cut.partition.partition,
                "from": cut.before,
                "to": cut.after,
                "records": cut.records,
            }
            for cut in cuts
        ],
    }
