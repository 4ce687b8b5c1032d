"""Describes groups: members and their assignments, committed offsets, lag."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.cli.output import count_of, print_lines, table
from penstock.client.client import Client
from penstock.client.group_offsets import GroupOffset, committed_offsets
from penstock.client.groups import DescribedMember, GroupDescription
from penstock.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets


class GroupPartitionRow(NamedTuple):
    """A group's state in one partition; None for what does not exist."""

    partition: TopicPartition
    committed: GroupOffset | None
    start_offset: int | None
    end_offset: int | None
    member: DescribedMember | None

    @property
    def lag(self) -> int | None:
        """The offsets left to read; those that retention has deleted do not count."""
        if self.end_offset is None or self.start_offset is None:
            return None
        position = self.start_offset if self.committed is None else self.committed.offset
        return max(0, self.end_offset - max(position, self.start_offset))


class GroupReport(NamedTuple):
    group: GroupDescription
    places: tuple[GroupPartitionRow, ...]

    @property
    def lag(self) -> int:
        return sum(place.lag or 0 for place in self.places)


async def describe(client: Client, groups: Sequence[GroupDescription]) -> list[GroupReport]:
    return [await _describe(client, group) for group in groups]


async def _describe(client: Client, group: GroupDescription) -> GroupReport:
    owners = {partition: member for member in group.members for partition in member.partitions}
    committed = await committed_offsets(client, group.group_id)
    partitions = sorted({*committed, *owners})
    starts = await offsets_that_exist(client, partitions, EARLIEST)
    ends = await offsets_that_exist(client, partitions, LATEST)
    return GroupReport(
        group,
        tuple(
            GroupPartitionRow(
                each,
                committed.get(each),
                starts.get(each),
                ends.get(each),
                owners.get(each),
            )
            for each in partitions
        ),
    )


async def offsets_that_exist(
    client: Client, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """The log start or end offsets of partitions; those of deleted topics are left out."""
    names = sorted({partition.topic for partition in partitions})
    counts: Mapping[str, int] = (
        {topic.name: len(topic.partitions) for topic in await client.refresh(names)} if names else {}
    )
    existing = [each for each in partitions if each.partition < counts.get(each.topic, 0)]
    found = await list_offsets(client, dict.fromkeys(existing, timestamp)) if existing else {}
    return {partition: each.offset for partition, each in found.items() if isinstance(each, FoundOffset)}


def print_description(descriptions: Sequence[GroupReport]) -> None:
    for number, description in enumerate(descriptions):
        group = description.group
        print_lines(["", group.group_id] if number else [group.group_id])
        facts = [
            ("protocol", group.protocol.value),
            ("state", group.state),
            ("assignor", group.assignor),
            ("members", str(len(group.members))),
            ("lag", count_of(description.lag, "record")),
        ]
        print_lines(f"  {name:<8}  {value}" for name, value in facts if value)
        if description.places:
            print_lines(
                table(
                    ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"),
                    [_row(place) for place in description.places],
                    indent="  ",
                )
            )
        idle = [member for member in group.members if not member.partitions]
        if idle:
            print_lines([f"  without partitions: {', '.join(_name(member) for member in idle)}"])


def description_as_json(description: GroupReport) -> dict[str, object]:
    group = description.group
    return {
        "group": group.group_id,
        "protocol": group.protocol.value,
        "state": group.state,
        "assignor": group.assignor,
        "epoch": group.epoch if group.epoch >= 0 else None,
        "lag": description.lag,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.client_host.lstrip("/"),
                "topics": list(member.topics),
                "regex": member.regex,
                "partitions": [str(each) for each in sorted(member.partitions)],
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": place.partition.topic,
                "partition": place.partition.partition,
                "committed": None if place.committed is None else place.committed.offset,
                "metadata": None if place.committed is None else place.committed.metadata,
                "start_offset": place.start_offset,
                "end_offset": place.end_offset,
                "lag": place.lag,
                "member": None if place.member is None else place.member.member_id,
            }
            for place in description.places
        ],
    }


def _row(place: GroupPartitionRow) -> tuple[object, ...]:
    return (
        place.partition.topic,
        place.partition.partition,
        None if place.committed is None else place.committed.offset,
        place.end_offset,
        place.lag,
        None if place.member is None else _name(place.member),
    )


def _name(member: DescribedMember) -> str:
    return f"{member.instance_id or member.client_id} ({member.client_host.lstrip('/')})"
