"""Features of a cluster: finalised levels, levels that brokers support, and raising them. ApiVersions v4,
UpdateFeatures v0-v2.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.base.features import LevelRange
from penstock.base.version import VERSION
from penstock.client.client import Client
from penstock.client.errors import raise_if_refused
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

TIMEOUT_MS: Final = 20_000
_UPGRADE: Final = 1


_NOTHING: Final = LevelRange(0, 0)


class Feature(NamedTuple):
    """A feature, its finalised level, and the levels that each broker supports."""

    name: str
    level: int
    supported: Mapping[int, LevelRange]

    @property
    def highest(self) -> int:
        """The highest level that every broker supports."""
        return min(levels.highest for levels in self.supported.values())


async def describe_features(client: Client) -> list[Feature]:
    """Every feature that a broker of the cluster supports, by name. Brokers that do not answer are left out."""
    request = ApiVersionsRequest(client_software_name="penstock", client_software_version=VERSION)

    answers = await client.retry(lambda: client.ask_reachable(request, ApiVersionsResponse))
    newest = max(answers.values(), key=lambda answer: answer.finalized_features_epoch)
    levels = {each.name: each.max_version_level for each in newest.finalized_features}
    supported: dict[str, dict[int, LevelRange]] = {name: dict.fromkeys(answers, _NOTHING) for name in levels}
    for node_id, answer in answers.items():
        for each in answer.supported_features:
            by_broker = supported.setdefault(each.name, dict.fromkeys(answers, _NOTHING))
            by_broker[node_id] = LevelRange(each.min_version, each.max_version)
    return [Feature(name, levels.get(name, 0), supported[name]) for name in sorted(supported)]


async def raise_features(client: Client, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
    """Raise the finalised levels of features, all of them or none; AnsweredError if the controller refuses."""
    request = UpdateFeaturesRequest(
        timeout_ms=TIMEOUT_MS,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=_UPGRADE)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    async def attempt() -> None:
        response = await client.ask_controller(request, UpdateFeaturesResponse)
        raise_if_refused(response.error_code, response.error_message, "raise the levels of features")
        for each in response.results:
            raise_if_refused(each.error_code, each.error_message, f"raise the level of {each.feature}")

    await client.retry(attempt)
