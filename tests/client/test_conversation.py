import pytest

from penstock.base.errors import PeerError
from penstock.client.conversation import Conversation
from penstock.schema.codec import encode
from penstock.wire.headers import frame_response
from penstock.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.request_headers import read_request_header


def new_conversation() -> Conversation:
    return Conversation(client_id="me", response_bytes_max=10_000)


def response(correlation_id: int, controller_id: int) -> bytes:
    message = MetadataResponse(controller_id=controller_id)
    return b"".join(
        frame_response(api_key=3, api_version=12, correlation_id=correlation_id, chunks=encode(message, 12))
    )


def test_a_request_carries_its_number_and_who_asks() -> None:
    conversation = new_conversation()
    for expected_id in (0, 1):
        frame = b"".join(conversation.ask(MetadataRequest(), 12, MetadataResponse))
        header, _ = read_request_header(frame[4:])
        assert (header.api_key, header.api_version) == (3, 12)
        assert (header.correlation_id, header.client_id) == (expected_id, "me")
    assert conversation.pending_count == 2


def test_answers_come_back_in_the_order_of_the_requests_however_the_bytes_are_cut() -> None:
    conversation = new_conversation()
    for _ in range(3):
        conversation.ask(MetadataRequest(), 12, MetadataResponse)
    data = response(0, 10) + response(1, 11) + response(2, 12)
    answers = [message for byte in data for message in conversation.feed(bytes([byte]))]
    assert [message.controller_id for message in answers if isinstance(message, MetadataResponse)] == [
        10,
        11,
        12,
    ]
    assert conversation.pending_count == 0


def test_an_answer_with_another_number_than_the_oldest_request_is_refused() -> None:
    conversation = new_conversation()
    conversation.ask(MetadataRequest(), 12, MetadataResponse)
    with pytest.raises(PeerError, match="answer 7 came where 0 was due"):
        conversation.feed(response(7, 1))


def test_an_answer_without_a_request_is_rejected() -> None:
    with pytest.raises(PeerError, match="a response without a request"):
        new_conversation().feed(response(0, 1))


def test_an_answer_larger_than_allowed_is_refused_before_it_is_read() -> None:
    conversation = new_conversation()
    conversation.ask(MetadataRequest(), 12, MetadataResponse)
    with pytest.raises(PeerError, match="at most 10000"):
        conversation.feed((2**31 - 1).to_bytes(4, "big"))


def test_a_request_that_is_never_answered_takes_a_number_and_leaves_nothing_pending() -> None:
    conversation = new_conversation()
    conversation.tell(MetadataRequest(), 12)
    conversation.ask(MetadataRequest(), 12, MetadataResponse)
    assert conversation.pending_count == 1
    assert conversation.feed(response(1, 5))


def test_a_broker_that_refuses_the_version_of_the_handshake_is_understood() -> None:
    conversation = new_conversation()
    conversation.ask(ApiVersionsRequest(), 4, ApiVersionsResponse)
    refused = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]
    )
    data = b"".join(frame_response(api_key=18, api_version=0, correlation_id=0, chunks=encode(refused, 0)))
    (answer,) = conversation.feed(data)
    assert answer == refused
