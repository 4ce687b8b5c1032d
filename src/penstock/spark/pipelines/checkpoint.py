"""What Spark's checkpoint says about a flow, read from its files without Spark.

Spark writes `offsets/N` when batch N is planned and `commits/N` when it is done. Positions are those of the last batch
that is done; a batch that is only planned comes again.
"""

import json
from pathlib import Path
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.spark.positions import Positions, Reached


class CheckpointState(NamedTuple):
    """How far a flow has come."""

    batches_done: int
    is_in_batch: bool  # a batch was planned and is not done
    positions: Positions


def read_checkpoint(folder: Path) -> CheckpointState | None:
    """None if the flow has never planned a batch; UserError if the files hold something else."""
    planned = _numbers(folder / "offsets")
    if not planned:
        return None
    done = _numbers(folder / "commits")
    last_done = done[-1] if done else -1
    # Spark keeps the newest hundred of each, so the offsets of the last batch that is done are still there.
    positions = _positions(folder / "offsets" / str(last_done)) if last_done in planned else {}
    return CheckpointState(last_done + 1, planned[-1] > last_done, positions)


def query_id_of(folder: Path) -> str:
    """The id of the query that the checkpoint belongs to, which Spark writes before the first batch. Not everybody who
    is given a batch is told it: through Spark Connect nobody is."""
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
