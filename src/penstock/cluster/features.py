"""The finalised features of a cluster, and the rules of UpdateFeatures: a level is raised or lowered only to one that
every registered broker supports, alive or not.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from penstock.base.errors import ErrorCode, Refusal, StorageError, UserError
from penstock.base.features import LEVELS_BEFORE, LevelRange
from penstock.base.version import VERSION

Ranges = Mapping[str, LevelRange]

_FORMAT = 1


class UpgradeType(IntEnum):
    """The upgrade type of an UpdateFeatures request; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True)
class Features:
    """The finalised levels; a feature without one is at 0. The epoch grows with every change, and is 0 in metadata
    without levels.
    """

    levels: Mapping[str, int] = field(default_factory=lambda: LEVELS_BEFORE)
    epoch: int = 0

    def level(self, name: str) -> int:
        return self.levels.get(name, 0)

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {"version": _FORMAT, "epoch": self.epoch, "levels": dict(self.levels)}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> "Features":
        if document["version"] > _FORMAT:
            raise StorageError(
                f"the cluster's features are written in format {document['version']}, and this program ({VERSION}) "
                f"reads {_FORMAT}: install the version that wrote them, or a newer one"
            )
        return cls(document["levels"], document["epoch"])

    def encode(self) -> bytes:
        """The node's content."""
        return json.dumps(self.document(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Features":
        return cls.of_document(json.loads(data))


def first_features(supported: Ranges) -> Features:
    """The features of a new cluster: the highest levels that its first broker supports."""
    return Features({name: range_.highest for name, range_ in supported.items()}, epoch=1)


def updated(
    current: Features, updates: Mapping[str, FeatureUpdate], brokers: Mapping[int, Ranges]
) -> Features | Refusal:
    """The features with all updates applied, or the Refusal of the first invalid one."""
    levels = dict(current.levels)
    for name, update in updates.items():
        problem = _problem(name, update, current.level(name), brokers)
        if problem is not None:
            return Refusal(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {name}. {problem}",
            )
        levels[name] = update.level
    return current if levels == current.levels else Features(levels, current.epoch + 1)


def _problem(name: str, update: FeatureUpdate, current: int, brokers: Mapping[int, Ranges]) -> str | None:
    if update.upgrade_type not in set(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    unable = [
        f"Broker {node_id} {_only_supports(ranges.get(name))}"
        for node_id, ranges in sorted(brokers.items())
        if name not in ranges or not ranges[name].covers(update.level)
    ]
    if unable:
        return "; ".join(unable) + "."
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _only_supports(range_: LevelRange | None) -> str:
    return "does not support this feature" if range_ is None else f"only supports versions {range_}"


def unsupported(features: Features, supported: Ranges) -> list[str]:
    """A description of each finalised level that a broker does not support; level 0 needs no support."""
    return [
        f"{name} is finalised at level {level}, and this broker {_only_supports(supported.get(name))}"
        for name, level in sorted(features.levels.items())
        if not (supported[name].covers(level) if name in supported else level == 0)
    ]


def refusal_to_join(problems: Iterable[str]) -> UserError:
    """The error of a broker that does not support a finalised level."""
    return UserError(
        f"this broker ({VERSION}) cannot be part of its cluster: {'; '.join(problems)}. Install the version that the "
        "other brokers run, or lower the level first (kafka-features downgrade) where all of them support the lower one"
    )
