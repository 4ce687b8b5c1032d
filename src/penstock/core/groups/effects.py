"""Effects: the records and completions of one decision, collected while a request is handled."""

from typing import Any, TypeVar

from penstock.base.errors import Refusal
from penstock.core.coordinator_shard import Completion, Decision, Pending
from penstock.records.internal.record import InternalRecord

R = TypeVar("R")


class Effects:
    """Records to append, and responses to waiting requests."""

    def __init__(self) -> None:
        self.records: list[InternalRecord] = []
        self.completions: list[Completion] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.completions)

    def complete(self, pending: Pending[Any], response: object) -> None:
        self.completions.append(Completion(pending, response))

    def decision(self, response: R | Refusal | Pending[R]) -> Decision[R]:
        return Decision(response, tuple(self.records), tuple(self.completions))
