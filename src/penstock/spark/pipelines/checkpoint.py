"""Reads a flow's offsets from the files of Spark's checkpoint, without Spark.

Spark writes `offsets/N` when batch N is planned and `commits/N` when it is done. The positions are those of the last
committed batch; a batch that is only planned is repeated.
"""

import json
from pathlib import Path
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.spark.positions import Positions, Reached


class CheckpointState(NamedTuple):
    """The progress of a flow."""

    batches_done: int
    is_in_batch: bool  # a batch is planned and not committed
    positions: Positions


def read_checkpoint(folder: Path) -> CheckpointState | None:
    """The state of a flow; None if it has never planned a batch, UserError if the files are invalid."""
    planned = _numbers(folder / "offsets")
    if not planned:
        return None
    done = _numbers(folder / "commits")
    last_done = done[-1] if done else -1
    # Spark keeps the newest hundred of each, so the offsets of the last committed batch exist.
    positions = _positions(folder / "offsets" / str(last_done)) if last_done in planned else {}
    return CheckpointState(last_done + 1, planned[-1] > last_done, positions)


def query_id_of(folder: Path) -> str:
    """The id of the checkpoint's query, which Spark writes before the first batch. Through Spark Connect, foreachBatch
    does not get it otherwise."""
    return str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit())
    except FileNotFoundError:
        return []


def _positions(file: Path) -> Positions:
    """A version, then the batch's settings, then a line for each source: flows have one."""
    lines = file.read_text(encoding="utf-8").splitlines()
    if len(lines) < 3:
        raise UserError(f"{file} is no offset file of a checkpoint: it has {len(lines)} lines")
    try:
        value = json.loads(lines[2])
    except json.JSONDecodeError as error:
        raise UserError(f"{file} is no offset file of a checkpoint: {error}") from None
    return Reached.from_json(value).positions
