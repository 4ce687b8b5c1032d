import pytest

from penstock.base.errors import ErrorCode
from penstock.schema.codec import decode
from penstock.wire.headers import RequestHeader, frame_request, read_response_header
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.raw_client import RawClient


def ask(client: RawClient, version: int = 4, name: str = "raw", software_version: str = "1.0"):
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    return client.ask(request, version)


def test_every_api_is_listed_once_in_the_order_of_its_key(client: RawClient):
    keys = [api.api_key for api in ask(client).api_keys]
    assert keys == sorted(set(keys))
    assert {0, 1, 3, 10, 18, 22, 75} <= set(keys)


def test_unsupported_apis_are_not_advertised(client: RawClient):
    share_and_streams_groups = {76, 77, 78, 79, 88, 89, 90, 91, 92}
    assert not share_and_streams_groups & {api.api_key for api in ask(client).api_keys}


def test_produce_is_advertised_from_0_as_kafka_does_for_old_librdkafkas(client: RawClient):
    produce = next(api for api in ask(client).api_keys if api.api_key == 0)
    assert (produce.min_version, produce.max_version) == (0, 13)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_is_answered_in_version_0_with_the_range_of_this_api(
    client: RawClient, version: int
):
    client.socket.sendall(b"".join(frame_request(RequestHeader(18, version, 77, "raw"), [b"\0\1\2\3"])))
    frame = client.receive_frame()
    correlation_id, position = read_response_header(18, 0, frame)
    answer = decode(ApiVersionsResponse, 0, frame, position)
    assert correlation_id == 77
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
    assert ask(client).error_code == 0, "the connection goes on"


@pytest.mark.parametrize("name", ["", "-raw", "raw!", "raw client", "raw\n"])
def test_an_invalid_client_software_name_is_rejected(client: RawClient, name: str):
    assert ask(client, name=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(client, software_version=name).error_code == ErrorCode.INVALID_REQUEST


def test_older_versions_have_no_software_name_to_check(client: RawClient):
    assert ask(client, 2, name="").error_code == 0


def test_features_that_work_are_finalised(client: RawClient):
    answer = ask(client)
    finalised = {
        one.name: (one.min_version_level, one.max_version_level) for one in answer.finalized_features
    }
    assert finalised == {
        "group.version": (1, 1),
        "penstock.peer.version": (1, 1),
        "penstock.version": (2, 2),
        "transaction.version": (2, 2),
    }
    assert answer.finalized_features_epoch == 1
    assert {one.name for one in answer.supported_features} == set(finalised)


def test_before_version_4_no_feature_that_begins_at_0_is_called_supported(client: RawClient):
    assert [one.name for one in ask(client, 3).supported_features] == ["penstock.version"]
    assert len(ask(client, 3).finalized_features) == 4
