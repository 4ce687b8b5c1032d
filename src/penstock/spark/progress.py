"""Commits finished batches as offsets of a consumer group, so that Kafka's tools show a stream's lag. On the driver.

The stream continues from Spark's checkpoint, not from these offsets. So a commit that fails is only a warning, and its
timeout is short.
"""

import logging
from typing import Final

from penstock.base.errors import Refusal
from penstock.base.settings import Settings
from penstock.client.client import Client
from penstock.client.errors import ClientError, describe
from penstock.client.group_offsets import GroupOffset, commit_offsets
from penstock.spark.options import COMMIT_GROUP, GROUP_ID, GROUP_ID_PREFIX
from penstock.spark.positions import Positions

log = logging.getLogger("penstock.spark")

_OFF: Final = ("false", "off", "none", "")
_PATIENCE_MS: Final = 2_000


def group_for(settings: Settings, token: str) -> str | None:
    """The group that a new stream commits to, or None. `token` makes the default name unique."""
    named = settings[COMMIT_GROUP] if settings[COMMIT_GROUP] is not None else settings[GROUP_ID]
    if named is None or named.lower() == "true":
        return f"{settings[GROUP_ID_PREFIX]}-{token}"
    return None if named.lower() in _OFF else named


async def show_progress(client: Client, group: str, positions: Positions) -> None:
    """Commit that everything below the positions has been processed."""
    offsets = {partition: GroupOffset(offset) for partition, offset in positions.items()}
    if not offsets:
        return
    try:
        refused = await commit_offsets(client, group, offsets, patience_ms=_PATIENCE_MS)
    except ClientError as error:
        log.warning("committing the progress of group %s failed: %s", group, error)
        return
    refusals = {str(partition): refusal for partition, refusal in refused.items() if refusal is not None}
    for partition, refusal in list(refusals.items())[:1]:
        assert isinstance(refusal, Refusal)
        log.warning(
            "committing the progress of group %s in %s failed: %s", group, partition, describe(refusal)
        )
