import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.raw_client import RawClient

GROUP = 0
TRANSACTION = 1


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_no_coordinator_is_available_yet(client: RawClient, key_type: int):
    answer = client.ask(FindCoordinatorRequest(key="me", key_type=key_type), 3)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answer.node_id == -1


def test_each_of_several_keys_is_answered(client: RawClient):
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["one", "two"])
    coordinators = client.ask(request, 6).coordinators
    assert [(c.key, c.error_code) for c in coordinators] == [
        ("one", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("two", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
