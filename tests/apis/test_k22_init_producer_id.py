from pathlib import Path

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from tests.apis.requests import new_producer_id
from tests.raw_client import RawClient


def test_a_producer_id_is_never_allocated_twice(client: RawClient, another_client: RawClient):
    # More than one block of ids that the controller hands out.
    count = 600
    ids = [new_producer_id(one) for _ in range(count) for one in (client, another_client)]
    assert len(set(ids)) == 2 * count
    assert min(ids) >= 0


def test_a_new_producer_begins_with_epoch_0(client: RawClient):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert client.ask(request, 5).producer_epoch == 0


def test_an_empty_transactional_id_is_refused(client: RawClient):
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert client.ask(request, 5).error_code == ErrorCode.INVALID_REQUEST


def test_ids_stay_unique_across_restarts(tmp_path: Path):
    ids = []
    for _ in range(3):
        with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
            ids += [new_producer_id(client), new_producer_id(client)]
    assert len(set(ids)) == 6
