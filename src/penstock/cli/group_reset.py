"""Resets a group's committed offsets, and shows before what it would read again or skip."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.cli.group_description import offsets_that_exist
from penstock.cli.output import count_of, print_lines, table
from penstock.cli.positions import Position, resolve
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.group_offsets import GroupOffset, commit_offsets, committed_offsets
from penstock.client.offsets import EARLIEST, LATEST


class Move(NamedTuple):
    """One partition: the committed offset before (None: none) and after the reset, and the partition's offsets."""

    partition: TopicPartition
    before: int | None
    after: int
    start_offset: int
    end_offset: int

    @property
    def effect(self) -> str:
        """How many existing records the group would read again or skip."""
        if self.before is None:
            return f"begins, {count_of(self.end_offset - self.after, 'record')} ahead"
        before = min(max(self.before, self.start_offset), self.end_offset)
        if self.after < before:
            return f"reads {count_of(before - self.after, 'record')} again"
        if self.after > before:
            return f"skips {count_of(self.after - before, 'record')}"
        return "stays"


async def plan(
    client: Client,
    group_id: str,
    chosen: Sequence[TopicPartition],
    *,
    place: Position | None,
    shift: int | None,
) -> list[Move]:
    """The resets of the chosen partitions, or of all that have a committed offset and still exist."""
    committed = await committed_offsets(client, group_id)
    wanted = sorted(chosen or committed)
    starts = await offsets_that_exist(client, wanted, EARLIEST)
    ends = await offsets_that_exist(client, wanted, LATEST)
    existing = [each for each in wanted if each in starts and each in ends]
    if place is not None:
        targets = await resolve(client, existing, place) if existing else {}
    else:
        assert shift is not None
        targets = {each: _shifted(each, committed, shift, starts[each], ends[each]) for each in existing}
    return [
        Move(
            each,
            committed[each].offset if each in committed else None,
            targets[each],
            starts[each],
            ends[each],
        )
        for each in existing
    ]


async def apply(client: Client, group_id: str, moves: Sequence[Move]) -> None:
    results = await commit_offsets(
        client, group_id, {move.partition: GroupOffset(move.after) for move in moves}
    )
    for partition, refusal in results.items():
        if refusal is not None:
            raise AnsweredError(refusal, f"cannot set the offset of group {group_id!r} in {partition}")


def print_plan(moves: Sequence[Move]) -> None:
    print_lines(
        table(
            ("TOPIC", "PARTITION", "FROM", "TO", "EFFECT"),
            [
                (move.partition.topic, move.partition.partition, move.before, move.after, move.effect)
                for move in moves
            ],
        )
    )


def _shifted(
    partition: TopicPartition, committed: dict[TopicPartition, GroupOffset], shift: int, start: int, end: int
) -> int:
    if partition not in committed:
        raise UserError(f"the group has no committed offset in {partition} to move from; use --to")
    return min(max(committed[partition].offset + shift, start), end)
