"""The actors of a plan that need a coordinator: members of groups, copiers among them, and transactional producers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CLASSIC = "classic"
CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member of a group; with `copies_to`, it copies what it reads there, in transactions with its offsets."""

    name: str
    group: str
    topics: tuple[str, ...]
    protocol: str
    copies_to: str = ""
    copy_partitions: int = 1

    @staticmethod
    def of(data: Mapping[str, Any]) -> "MemberPlan":
        return MemberPlan(**{**data, "topics": tuple(data["topics"])})


@dataclass(frozen=True, slots=True)
class TransactorPlan:
    """One transactional id's producer."""

    name: str
    timeout_ms: int
