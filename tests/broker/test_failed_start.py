"""A start that fails because of its address leaves the data directory as it found it."""

import socket
from pathlib import Path

import pytest

from penstock.broker.listen_errors import AddressInUseError
from penstock.testing import EmbeddedBroker
from tests.apis.requests import values_in
from tests.raw_client import RawClient, batch_of


def test_an_address_in_use_does_not_make_the_last_stop_unclean(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(AddressInUseError):
        EmbeddedBroker(data_dir=tmp_path, port=other.getsockname()[1]).start()
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert broker._life is not None
        assert broker._life.broker._directory.was_closed_cleanly
        assert values_in(client.fetch("t", 0).records) == [b"x"]
