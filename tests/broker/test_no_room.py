"""A full disk: refused, said, and over when there is room again."""

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from tests.apis.requests import delete_topic
from tests.raw_client import RawClient, batch_of

MIB = 1 << 20


def test_a_full_memory_refuses_appends_and_goes_on_reading_until_there_is_room_again():
    with (
        EmbeddedBroker(settings={"penstock.memory.bytes.max": 8 * MIB}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        for name in ("kept", "dropped"):
            client.create_topic(name, penstock_storage="memory")
        assert client.produce("kept", batch_of(b"first")).error_code == 0
        while (answer := client.produce("dropped", batch_of(b"x" * 900_000))).error_code == 0:
            pass
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "no room" in answer.error_message

        refused = client.produce("kept", batch_of(b"x" * 900_000))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert b"first" in bytes(client.fetch("kept", 0).records)

        delete_topic(client, "dropped")
        assert client.produce("kept", batch_of(b"x" * 900_000)).base_offset == 1
