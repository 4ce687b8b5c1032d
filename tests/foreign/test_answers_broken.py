"""What a broker does with requests that are no requests, compared with Apache Kafka: an error, or hanging up."""

import struct

import pytest

from penstock.base.errors import ErrorCode
from penstock.schema.codec import encode
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.metadata import MetadataRequest
from tests.foreign.test_api_versions import PROMISED
from tests.foreign.wire_peer import Pair

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

HEADER = ">hhih"


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int) -> bytes:
    return struct.pack(HEADER, api_key, version, 1, -1)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(pair: Pair, version: int) -> None:
    expected, got = (peer.ask_frame(18, version, b"\0") for peer in (pair.kafka, pair.broker))

    for answer in (expected, got):
        assert answer is not None
        error_code, count = struct.unpack_from(">hi", answer, 4)
        apis = {
            key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])
        }
        assert error_code == ErrorCode.UNSUPPORTED_VERSION
        assert apis[18] == (0, 4)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_with_every_kind_of_name(pair: Pair, version: int) -> None:
    for name, number in (("tests", "1.0"), ("", ""), ("a b", "1"), ("-x", "1"), ("x", "1_0")):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        expected, got = (peer.ask(request, version) for peer in (pair.kafka, pair.broker))
        assert got.error_code == expected.error_code, (name, number)


@pytest.mark.parametrize("api_key", sorted(set(PROMISED.values()) - {18}))
def test_an_unknown_api_version_closes_the_connection(pair: Pair, api_key: int) -> None:
    for version in (99, -1):
        assert pair.same_frame(api_key, version, b"\0" * 20) is None


@pytest.mark.parametrize("version", range(3))
def test_a_produce_request_of_a_removed_version_is_refused(pair: Pair, version: int) -> None:
    body = struct.pack(">hi", 1, 1000) + struct.pack(">i", 0)
    pair.same_frame(0, version, body)


@pytest.mark.parametrize("api_key", [93, 999, 32767, -1, 4, 5, 6, 7])
def test_an_unknown_api_key_closes_the_connection(pair: Pair, api_key: int) -> None:
    assert pair.same_frame(api_key, 0, b"") is None


GARBAGE = {
    "a negative length": struct.pack(">i", -5),
    "a length of 2 GiB": struct.pack(">i", 2**31 - 1),
    "a length over the limit": struct.pack(">i", 104857601),
    "an empty frame": struct.pack(">i", 0),
    "a frame of one byte": framed(b"\0"),
    "half a header": framed(b"\0\x12\0\0\0"),
    "a client id longer than the frame": framed(struct.pack(HEADER, 3, 0, 1, 1000)),
    "letters": b"GET / HTTP/1.1\r\n\r\n",
    "a negative array": framed(header(3, 0) + struct.pack(">i", -7)),
    "an array longer than the frame": framed(header(3, 1) + struct.pack(">i", 2**31 - 1)),
    "a body that ends early": framed(header(3, 4) + struct.pack(">i", 1) + b"\0\x05ab"),
    "a negative string": framed(header(3, 1) + struct.pack(">ih", 1, -3)),
    "no body": framed(header(0, 3)),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_closes_the_connection_and_nothing_else(pair: Pair, name: str) -> None:
    assert pair.same_bytes(GARBAGE[name]) is None
    pair.same(MetadataRequest(topics=[]), 4)


def test_bytes_after_the_body(pair: Pair) -> None:
    body = b"".join(encode(MetadataRequest(topics=[]), 4))
    expected, got = (peer.ask_frame(3, 4, body + b"more") for peer in (pair.kafka, pair.broker))
    assert (got is None) == (expected is None)
