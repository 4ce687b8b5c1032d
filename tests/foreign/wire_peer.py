"""One connection to a broker, on which any request can be sent in any version, right or wrong.

`Pair` asks two brokers the same and compares what they answer field by field, once everything that names a
particular broker or moment has been replaced by what it stands for.
"""

import contextlib
import importlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from peers.brokers import Broker
from penstock.base.errors import ErrorCode
from penstock.base.ids import ZERO_ID
from penstock.schema.codec import decode, encode
from penstock.schema.words import Message, Struct
from penstock.wire.headers import RequestHeader, frame_request, read_response_header
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_S = 10
SOON_S = 5
CLIENT_ID = "answers"


class Peer:
    """A connection to one broker, and what its ids and addresses stand for."""

    def __init__(self, broker: Broker) -> None:
        host, port = broker.bootstrap.split(":")
        self.address = host, int(port)
        self.cluster_id = broker.cluster_id
        self.ids: dict[str, bytes] = {}
        self._correlation_id = 0
        self._socket = self._connect()

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int) -> Any:
        frame = self.ask_frame(request.API_KEY, version, b"".join(encode(request, version)))
        assert frame is not None, f"the broker closed the connection at {type(request).__name__} v{version}"
        return _response(request, version, frame)

    def ask_frame(self, api_key: int, version: int, body: bytes) -> bytes | None:
        """The answer's frame to a body that may be anything; None if the broker closes the connection."""
        self._correlation_id += 1
        header = RequestHeader(api_key, version, self._correlation_id, CLIENT_ID)
        answer = self.ask_bytes(b"".join(frame_request(header, [body])))
        if answer is not None:
            assert struct.unpack_from(">i", answer)[0] == self._correlation_id
        return answer

    def ask_bytes(self, sent: bytes) -> bytes | None:
        """The next frame after sending these bytes; None, and a new connection, if the broker hangs up."""
        try:
            self._socket.sendall(sent)
            size = struct.unpack(">i", self._receive(4))[0]
            return self._receive(size)
        except (ConnectionError, EOFError):
            self._reconnect()
            return None
        except TimeoutError:
            self._reconnect()  # or a late answer would be taken for the next one
            raise

    def send_without_answer(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        header = RequestHeader(request.API_KEY, version, self._correlation_id, CLIENT_ID)
        self._socket.sendall(b"".join(frame_request(header, encode(request, version))))

    def topic_id(self, name: str) -> bytes:
        if name not in self.ids:
            topics = [MetadataRequestTopic(name=name)]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            deadline_s = time.monotonic() + SOON_S
            while (answer := self.ask(request, 12)).topics[0].error_code:
                assert time.monotonic() < deadline_s, f"{name} is not there"
            self.ids[name] = answer.topics[0].topic_id
        return self.ids[name]

    def _reconnect(self) -> None:
        self._socket.close()
        self._socket = self._connect()

    def _connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=TIMEOUT_S)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = self._socket.recv(size - len(received))
            if not data:
                raise EOFError
            received += data
        return bytes(received)


class Pair:
    """Apache Kafka and the broker under test, asked the same questions."""

    def __init__(self, kafka: Broker, broker: Broker) -> None:
        self.kafka = Peer(kafka)
        self.broker = Peer(broker)

    @classmethod
    @contextlib.contextmanager
    def connected(cls, kafka: Broker, broker: Broker) -> Iterator[Self]:
        pair = cls(kafka, broker)
        try:
            yield pair
        finally:
            pair.kafka.close()
            pair.broker.close()

    def learn(self, *topics: str) -> None:
        """From now on answers are compared by which of these topics an id stands for."""
        for topic in topics:
            self.kafka.topic_id(topic)
            self.broker.topic_id(topic)

    def same(self, request: Message | Callable[[Peer], Message], version: int) -> Any:
        """Both brokers' answer, in plain values; fails if they differ.

        A request that names a topic by id is a function, because each broker has ids of its own.
        """
        expected, got = (self._plain_answer(peer, request, version) for peer in (self.kafka, self.broker))
        expect_equal(got, expected)
        return got

    def same_soon(self, request: Message | Callable[[Peer], Message], version: int) -> Any:
        """As `same`, for what Kafka's broker learns from its controller only after the change was answered."""
        deadline_s = time.monotonic() + SOON_S
        while True:
            try:
                return self.same(request, version)
            except AssertionError:
                if time.monotonic() > deadline_s:
                    raise

    def same_or_both_close(self, request: Callable[[Peer], Message], version: int) -> None:
        """For requests to which hanging up may be the right answer."""
        answers = []
        for peer in (self.kafka, self.broker):
            made = request(peer)
            frame = peer.ask_frame(made.API_KEY, version, b"".join(encode(made, version)))
            answers.append(frame and plain(_response(made, version, frame), peer))
        expect_equal(answers[1], answers[0])

    def same_frame(self, api_key: int, version: int, body: bytes) -> bytes | None:
        """Both brokers' answer to any body, without its correlation id."""
        expected, got = (peer.ask_frame(api_key, version, body) for peer in (self.kafka, self.broker))
        expect_equal(got and got[4:], expected and expected[4:])
        return got

    def same_bytes(self, sent: bytes) -> bytes | None:
        expected, got = (peer.ask_bytes(sent) for peer in (self.kafka, self.broker))
        assert got == expected
        return got

    @staticmethod
    def _plain_answer(peer: Peer, request: Message | Callable[[Peer], Message], version: int) -> Any:
        made = request if isinstance(request, Message) else request(peer)
        return plain(peer.ask(made, version), peer)


def _response(request: Message, version: int, frame: bytes) -> Message:
    _, position = read_response_header(request.API_KEY, version, frame)
    return decode(response_shape(type(request)), version, frame, position)


def response_shape(request: type[Message]) -> type[Message]:
    module = importlib.import_module(request.__module__)
    shape: type[Message] = getattr(module, request.__name__.removesuffix("Request") + "Response")
    return shape


def expect_equal(got: object, expected: object) -> None:
    found = list(differences(got, expected))
    if found:
        raise AssertionError("differs from Apache Kafka's answer:\n  " + "\n  ".join(found))


def differences(got: Any, expected: Any, path: str = "") -> Iterator[str]:
    """Each field in which two plain values differ, by its path."""
    if isinstance(got, dict) and isinstance(expected, dict):
        for name in [*expected, *(name for name in got if name not in expected)]:
            if says_more(name, got, expected):
                continue
            yield from differences(got.get(name), expected.get(name), f"{path}.{name}".lstrip("."))
    elif _are_named(got) and _are_named(expected):
        yield from differences(*({each["name"]: each for each in side} for side in (got, expected)), path)
    elif isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        for index, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
            yield from differences(ours, theirs, f"{path}[{index}]")
    elif got != expected:
        yield f"{path}: got {got!r}, Kafka has {expected!r}"


def says_more(field: str, got: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether our answer only tells the client more: words where Kafka has none, a reason where it has no idea."""
    if field == "error_message":
        return expected[field] is None and bool(got.get("error_code"))
    if field == "error_code":
        return expected[field] == ErrorCode.UNKNOWN_SERVER_ERROR and got[field] != ErrorCode.NONE
    return False


def _are_named(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value)


def plain(value: Any, peer: Peer, field: str = "") -> Any:
    """Dictionaries, lists and scalars that are equal where two brokers' answers mean the same."""
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name), peer, name) for name in value.FIELDS}
    if isinstance(value, list):
        parts = [plain(each, peer, field) for each in value if not is_an_addition(each)]
        # Kafka answers most lists in the order of a hash table.
        return sorted(parts, key=repr) if parts and isinstance(parts[0], dict) else parts
    if isinstance(value, memoryview):
        return bytes(value)
    replace = STANDS_FOR.get(field)
    return value if replace is None else replace(value, peer)


def is_an_addition(value: object) -> bool:
    """Configs of Penstock's own stand beside Kafka's, and are not compared."""
    return str(getattr(value, "name", "")).startswith("penstock.")


def _some_id(value: bytes, peer: Peer) -> str:
    if value == ZERO_ID:
        return "no id"
    names = [name for name, known in peer.ids.items() if known == value]
    return f"the id of {names[0]}" if names else "an id"


def _now(value: int, peer: Peer) -> object:
    return "now" if abs(time.time() * 1000 - value) < 60_000 else value


def _present(value: object, peer: Peer) -> object:
    return None if value is None else "some words"


def _given_id(value: int, peer: Peer) -> object:
    return "an id" if value >= 0 else value


def _natural(value: int, peer: Peer) -> object:
    return "a number" if value > 0 else value


STANDS_FOR: dict[str, Callable[[Any, Peer], object]] = {
    "host": lambda value, peer: "here" if value == peer.address[0] else value,
    "port": lambda value, peer: "here" if value == peer.address[1] else value,
    "cluster_id": lambda value, peer: "ours" if value == peer.cluster_id else value,
    "topic_id": _some_id,
    "error_message": _present,
    "batch_index_error_message": _present,
    "documentation": _present,
    "log_append_time_ms": _now,
    "log_dir": lambda value, peer: "a path",
    "producer_id": _given_id,
    "session_id": _natural,
    "total_bytes": _natural,
    "usable_bytes": _natural,
}
