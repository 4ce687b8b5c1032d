"""A project as `penstock pipeline describe` shows it: flows, positions, lag, tables. Spark is not needed."""

from typing import Any, NamedTuple

from penstock.spark.pipelines.checkpoint import CheckpointState, read_checkpoint
from penstock.spark.pipelines.lag import Ends, LagMeter
from penstock.spark.pipelines.paths import checkpoint_of, running_process, table_of
from penstock.spark.pipelines.project import Flow, Project, TableTarget
from penstock.spark.tables.manifest import read_manifest


class FlowDescription(NamedTuple):
    """A flow's state; None for what is unknown: no batch yet, or no reachable broker."""

    flow: Flow
    checkpoint: CheckpointState | None
    lag: int | None
    table_rows: int | None
    table_bytes: int | None


class PipelineDescription(NamedTuple):
    project: Project
    running_as: int | None
    broker_answers: bool
    flows: tuple[FlowDescription, ...]


def describe_project(project: Project) -> PipelineDescription:
    with LagMeter(project) as meter:
        ends = meter.look(topic for flow in project.flows.values() for topic in flow.topics)
    flows = tuple(_describe(project, flow, ends) for flow in project.flows.values())
    return PipelineDescription(project, running_process(project), ends is not None, flows)


def _describe(project: Project, flow: Flow, ends: Ends | None) -> FlowDescription:
    checkpoint = read_checkpoint(checkpoint_of(project, flow))
    positions = checkpoint.positions if checkpoint is not None else {}
    lag = None if ends is None else ends.lag(flow.topics, positions)
    if not isinstance(flow.to, TableTarget):
        return FlowDescription(flow, checkpoint, lag, None, None)
    manifest = read_manifest(table_of(project, flow.to))
    return FlowDescription(flow, checkpoint, lag, manifest.row_count, manifest.bytes_count)


def description_as_json(description: PipelineDescription) -> dict[str, Any]:
    project = description.project
    return {
        "name": project.name,
        "directory": str(project.directory),
        "state": str(project.state),
        "bootstrap_servers": project.bootstrap_servers,
        "broker_answers": description.broker_answers,
        "running_as": description.running_as,
        "flows": [_flow_as_json(each) for each in description.flows],
    }


def _flow_as_json(each: FlowDescription) -> dict[str, Any]:
    flow, checkpoint = each.flow, each.checkpoint
    offsets: dict[str, dict[str, int]] = {}
    for partition, offset in sorted((checkpoint.positions if checkpoint else {}).items()):
        offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return {
        "name": flow.name,
        "from": list(flow.topics),
        "transform": flow.transform,
        "to": str(flow.to),
        "output_mode": flow.output_mode,
        "trigger": flow.trigger,
        "group": flow.group,
        "batches": checkpoint.batches_done if checkpoint else 0,
        "in_batch": checkpoint.is_in_batch if checkpoint else False,
        "positions": offsets,
        "lag": each.lag,
        "table_rows": each.table_rows,
        "table_bytes": each.table_bytes,
    }
