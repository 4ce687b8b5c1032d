"""One flow back to the beginning: its checkpoint, its table and its consumer group go; other flows are not touched.

What a flow wrote to a topic stays there, for a log is not rewritten; the flow writes it again.
"""

import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.client.errors import ClientError, describe
from penstock.client.groups import delete_groups
from penstock.spark.pipelines.lag import LagMeter
from penstock.spark.pipelines.paths import checkpoint_of, locked, table_of
from penstock.spark.pipelines.project import Flow, Project, TableTarget, TopicTarget

_GONE = (ErrorCode.GROUP_ID_NOT_FOUND,)


class Removed(NamedTuple):
    """What a reset did."""

    flow: str
    checkpoint: bool
    table: str | None
    group: str | None
    # What stays, and why.
    notes: tuple[str, ...]


def reset_flow(project: Project, flow: Flow) -> Removed:
    """UserError if the pipeline is running."""
    with locked(project):
        # The checkpoint first: a table without one is made anew and filled from the beginning; a checkpoint without
        # its table would go on in the middle.
        had_checkpoint = _remove(checkpoint_of(project, flow))
        table = None
        notes = []
        if isinstance(flow.to, TableTarget) and _remove(table_of(project, flow.to)):
            table = flow.to.table
        if isinstance(flow.to, TopicTarget):
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


def _delete_group(project: Project, flow: Flow) -> str | None:
    """None if the group is gone. It only shows progress, so a broker that is away is no reason to fail."""
    try:
        with LagMeter(project) as meter:
            refusal = meter.blocking.run(delete_groups(meter.blocking.client, [flow.group]))[flow.group]
    except ClientError as error:
        return str(error)
    return None if refusal is None or refusal.code in _GONE else describe(refusal)
