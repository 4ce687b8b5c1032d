"""Blocks of producer ids, and the response to clients while there is none."""

import asyncio

import pytest

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.client.errors import UnreachableError
from penstock.cluster.metadata import PRODUCER_ID_BLOCK
from penstock.services.producer_ids import ProducerIds


class Blocks:
    """Hands out what the test has prepared."""

    def __init__(self, *answers: int | Refusal | Exception) -> None:
        self._answers = list(answers)

    async def allocate_producer_ids(self) -> int | Refusal:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_ids_are_taken_one_by_one_and_then_from_the_next_block() -> None:
    async def story() -> None:
        ids = ProducerIds(Blocks(0, 7 * PRODUCER_ID_BLOCK))
        taken = [await ids.take() for _ in range(PRODUCER_ID_BLOCK + 2)]
        assert taken == [*range(PRODUCER_ID_BLOCK), 7 * PRODUCER_ID_BLOCK, 7 * PRODUCER_ID_BLOCK + 1]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (UnreachableError("broker 3 is not known"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (Refusal(ErrorCode.NOT_CONTROLLER), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (StorageError("the store is closed"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_without_a_controller_clients_get_a_retriable_error(
    problem: Refusal | Exception, told: ErrorCode
) -> None:
    async def story() -> None:
        ids = ProducerIds(Blocks(problem, 0))
        refused = await ids.take()
        assert isinstance(refused, Refusal)
        assert refused.code is told
        assert refused.code.retriable
        assert await ids.take() == 0

    asyncio.run(story())
