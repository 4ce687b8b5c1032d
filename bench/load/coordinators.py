"""Finding coordinators and waiting until they are there: the first question for one makes its topic."""

import time
from collections.abc import Callable
from typing import Any

from bench.load.raw import LoadError
from bench.load.talks import Pause, Question, Talk
from penstock.base.errors import ErrorCode
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1

_VERSION = 4
_PATIENCE_S = 60
_PAUSE_S = 0.05
_NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


def find_coordinator(kind: int, key: str) -> Talk[None]:
    """Ask until `key` has a coordinator."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    question = Question(request, _VERSION, FindCoordinatorResponse)
    yield from insist(question, lambda answer: answer.coordinators[0].error_code)


def insist(question: Question, code_of: Callable[[Any], int]) -> Talk[Any]:
    """Ask until the answer is not that it is too early; LoadError if it is another error."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answer = yield question
        code = code_of(answer)
        if not code:
            return answer
        if code not in _NOT_YET or time.monotonic() > deadline:
            raise LoadError(f"{type(question.request).__name__} was answered {ErrorCode(code).name}")
        yield Pause(_PAUSE_S)
