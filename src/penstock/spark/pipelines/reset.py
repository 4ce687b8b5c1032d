"""Resets a flow to the beginning: removes its checkpoint, its table and its consumer group.

If other flows of the project read the topic that it writes, they are reset too, and that topic is emptied: else they
would read everything twice. Other flows are not touched. Records in a topic that no flow of the project reads stay,
since other consumers may have read them; the flow writes them again.
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
    """What is reset together: the named flow, those that it feeds, and the topics between them."""

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
    # What is not removed, and why.
    notes: tuple[str, ...]


def plan_reset(project: Project, flow: Flow, *, alone: bool = False) -> ResetPlan:
    """The flows and topics to reset with a flow; with `alone`, only the flow itself."""
    flows, topics = [flow], list[str]()
    for each in flows:  # the list grows while it is read
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
    """Whether a topic may be emptied because the reset flows fill it again: only they write to it, of the flows of the
    project."""
    writers = [
        each for each in project.flows.values() if isinstance(each.to, TopicTarget) and each.to.topic == topic
    ]
    is_read = any(topic in each.topics for each in project.flows.values())
    return is_read and topic not in first.topics and writers == [writer]


def reset(project: Project, plan: ResetPlan) -> list[Removed]:
    """Execute a plan; UserError, with nothing changed, if the pipeline is running or a topic cannot be emptied."""
    with locked(project):
        # Topics first, and readers before writers: after an interruption nothing is counted twice, and the reset can
        # be repeated.
        if plan.topics:
            _empty(project, plan.topics)
        removed = [_reset_flow(project, flow, emptied=plan.topics) for flow in reversed(plan.flows)]
    return removed[::-1]


def _reset_flow(project: Project, flow: Flow, *, emptied: Iterable[str]) -> Removed:
    # The checkpoint first: a table without one is filled again from the beginning; with a checkpoint and no table, the
    # flow would continue in the middle.
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
    """Rename, then remove: an interrupted removal must not leave half a checkpoint."""
    doomed = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.removed")
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return False
    shutil.rmtree(doomed)
    return True


def _empty(project: Project, topics: Iterable[str]) -> None:
    """Delete all records of topics. The topics stay, with their partitions and configs."""
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
    """The refusals by partition; topics that do not exist are left out."""
    found = await client.refresh(topics)
    everything = {
        TopicPartition(topic.name, each.partition): _ALL for topic in found for each in topic.partitions
    }
    done = await delete_records(client, everything) if everything else {}
    return {each: start for each, start in done.items() if isinstance(start, Refusal)}


def _delete_group(project: Project, flow: Flow) -> str | None:
    """Delete the group, None if that succeeded. It only shows progress, so an unreachable broker is no failure."""
    try:
        with LagMeter(project) as meter:
            refusal = meter.blocking.run(delete_groups(meter.blocking.client, [flow.group]))[flow.group]
    except ClientError as error:
        return str(error)
    return None if refusal is None or refusal.code in _GONE else describe(refusal)


def _names(topics: Iterable[str]) -> str:
    return ", ".join(f"topic {each}" for each in topics)
