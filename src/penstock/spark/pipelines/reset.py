"""A flow back to the beginning: its checkpoint, its table and its consumer group go.

A flow that writes to a topic which other flows of the project read goes back with them, and that topic is emptied: they
would otherwise read everything twice. Other flows are not touched. What a flow wrote to a topic that no flow reads
stays there, for others may have read it; the flow writes it again.
"""

import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import ClientError, describe
from penstock.client.groups import delete_groups
from penstock.client.topics import delete_records
from penstock.spark.pipelines.lag import LagMeter
from penstock.spark.pipelines.paths import checkpoint_of, locked, table_of
from penstock.spark.pipelines.project import Flow, Project, TableTarget, TopicTarget

_GONE: Final = (ErrorCode.GROUP_ID_NOT_FOUND,)
_ALL: Final = -1  # to DeleteRecords


class ResetPlan(NamedTuple):
    """What goes back together: the flow that was named, those that it feeds, and the topics between them."""

    flows: tuple[Flow, ...]
    topics: tuple[str, ...]

    def __str__(self) -> str:
        named = ", ".join(f"{flow.name} (writes {flow.to})" for flow in self.flows)
        return f"{named}, with {_names(self.topics)} between them emptied" if self.topics else named


class Removed(NamedTuple):
    """What a reset did to a flow."""

    flow: str
    checkpoint: bool
    table: str | None
    group: str | None
    # What stays, and why.
    notes: tuple[str, ...]


def plan_reset(project: Project, flow: Flow, *, alone: bool = False) -> ResetPlan:
    """What has to go back for a flow to go back; with `alone`, nothing but the flow itself."""
    flows, topics = [flow], list[str]()
    for each in flows:  # which grows meanwhile
        if (
            alone
            or not isinstance(each.to, TopicTarget)
            or not _is_between(project, each, each.to.topic, flow)
        ):
            continue
        topics.append(each.to.topic)
        flows += [fed for fed in project.flows.values() if each.to.topic in fed.topics and fed not in flows]
    return ResetPlan(tuple(flows), tuple(topics))


def _is_between(project: Project, writer: Flow, topic: str, first: Flow) -> bool:
    """Whether a topic may be emptied, since its writer fills it again: it is not what all begins with, and nobody else
    of the project writes to it."""
    writers = [
        each for each in project.flows.values() if isinstance(each.to, TopicTarget) and each.to.topic == topic
    ]
    is_read = any(topic in each.topics for each in project.flows.values())
    return is_read and topic not in first.topics and writers == [writer]


def reset(project: Project, plan: ResetPlan) -> list[Removed]:
    """Carry it out; UserError, and everything is as it was, if the pipeline is running or a topic cannot be emptied."""
    with locked(project):
        # Topics first, and who reads before who writes: whatever interrupts this, nothing is counted twice, and it can
        # be done again.
        if plan.topics:
            _empty(project, plan.topics)
        removed = [_reset_flow(project, flow, emptied=plan.topics) for flow in reversed(plan.flows)]
    return removed[::-1]


def _reset_flow(project: Project, flow: Flow, *, emptied: Iterable[str]) -> Removed:
    # The checkpoint first: a table without one is created again and filled from the beginning; a checkpoint without its
    # table would go on in the middle.
    had_checkpoint = _remove(checkpoint_of(project, flow))
    table = None
    notes = []
    if isinstance(flow.to, TableTarget) and _remove(table_of(project, flow.to)):
        table = flow.to.table
    if isinstance(flow.to, TopicTarget) and flow.to.topic not in emptied:
        notes.append(f"what was written to topic {flow.to.topic} stays, and is written again")
    problem = _delete_group(project, flow)
    if problem is not None:
        notes.append(f"group {flow.group} stays until the flow's next batch: {problem}")
    return Removed(flow.name, had_checkpoint, table, None if problem else flow.group, tuple(notes))


def _remove(folder: Path) -> bool:
    """Away at once, under another name first: a removal that is interrupted must not leave half a checkpoint."""
    doomed = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.removed")
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return False
    shutil.rmtree(doomed)
    return True


def _empty(project: Project, topics: Iterable[str]) -> None:
    """Take all records out of topics. The topics stay, with their partitions and configs."""
    try:
        with LagMeter(project) as meter:
            refusals = meter.blocking.run(_delete_all_records(meter.blocking.client, list(topics)))
    except ClientError as error:
        raise UserError(f"nothing was reset, since {_names(topics)} cannot be emptied: {error}") from error
    for partition, refusal in refusals.items():
        raise UserError(
            f"nothing was reset, since topic {partition.topic} cannot be emptied: {describe(refusal)}. "
            "--alone resets the flow without what it feeds"
        )


async def _delete_all_records(client: Client, topics: list[str]) -> dict[TopicPartition, Refusal]:
    """By partition, why not; what is not there is empty."""
    found = await client.refresh(topics)
    everything = {
        TopicPartition(topic.name, each.partition): _ALL for topic in found for each in topic.partitions
    }
    done = await delete_records(client, everything) if everything else {}
    return {each: start for each, start in done.items() if isinstance(start, Refusal)}


def _delete_group(project: Project, flow: Flow) -> str | None:
    """None if the group is gone. It only shows progress, so a broker that is away is no reason to fail."""
    try:
        with LagMeter(project) as meter:
            refusal = meter.blocking.run(delete_groups(meter.blocking.client, [flow.group]))[flow.group]
    except ClientError as error:
        return str(error)
    return None if refusal is None or refusal.code in _GONE else describe(refusal)


def _names(topics: Iterable[str]) -> str:
    return ", ".join(f"topic {each}" for each in topics)
