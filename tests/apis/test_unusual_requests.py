"""Every request in every version, well formed and full of unusual values, is answered: no handler fails on one.

The values are nothing (empty lists, or lists of one empty part), null wherever a version has it, ids and names that
exist or not, and the smallest and largest numbers. Only how long to wait is left at what a test can wait for.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schema.words import Field, FieldKind, Struct
from penstock.testing import EmbeddedBroker
from penstock.wire.apis import APIS
from penstock.wire.messages import request_type
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.apis.requests import topic_id
from tests.raw_client import RawClient
from tests.wire.shapes import any_of, versions

TOPIC = "orders"
GROUP, TRANSACTION = 0, 1
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNKNOWN_ID = b"sixteen bytes..."
JUNK = bytes(range(64))


class Style(NamedTuple):
    """What goes into the fields of a request."""

    name: str
    number: Callable[[int], int]  # by the count of bits
    text: str
    id: bytes
    blob: bytes
    nulls: str = ""  # which fields are null that may be: "lists", "values" or "all"
    parts: int = 1  # in every list
    flag: bool = False


STYLES = [
    Style("nothing", lambda _: 0, "", bytes(16), b"", parts=0),
    Style("empty parts", lambda _: 0, "", bytes(16), b""),
    Style("nulls", lambda _: 0, TOPIC, bytes(16), b"", nulls="all"),
    Style("null lists", lambda _: 0, TOPIC, b"", b"", nulls="lists"),
    Style("null values", lambda _: 0, TOPIC, bytes(16), b"", nulls="values"),
    Style("null values and a known id", lambda _: 0, TOPIC, b"", b"", nulls="values", flag=True),
    Style("null values and unknown ids", lambda _: 1, "unknown", UNKNOWN_ID, b"", nulls="values", parts=2),
    Style("unknown", lambda _: 1, "unknown", UNKNOWN_ID, JUNK, parts=2, flag=True),
    Style("known", lambda _: 0, TOPIC, b"", JUNK, parts=2),
    Style("known, flagged", lambda _: 1, TOPIC, b"", b"", flag=True),
    Style("minus one", lambda _: -1, TOPIC, b"", b""),
    Style("minus two", lambda _: -2, TOPIC, UNKNOWN_ID, b"", flag=True),
    Style("lowest", lambda bits: -(1 << (bits - 1)), TOPIC, b"", JUNK),
    Style("highest", lambda bits: (1 << (bits - 1)) - 1, TOPIC, b"\xff" * 16, JUNK, flag=True),
    Style("internal", lambda _: 0, "__consumer_offsets", bytes(16), JUNK),
    Style("no name", lambda _: 2, "no spaces/..", UNKNOWN_ID, JUNK),
    Style("long", lambda _: 1, "é" * 10_000, UNKNOWN_ID, JUNK * 100),
    Style("control characters", lambda _: 1, "\0\n\x7f", UNKNOWN_ID, JUNK),
]

# How long the client is ready to wait.
HARMLESS: dict[str, int] = {"max_wait_ms": 0, "timeout_ms": 100, "transaction_timeout_ms": 100}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"group.initial.rebalance.delay.ms": "0", "transaction.two.phase.commit.enable": "true"}
    with EmbeddedBroker(settings=settings) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic(TOPIC)
            for kind in (GROUP, TRANSACTION):  # without coordinators, no request would come to one
                found = client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[TOPIC]), 4)
                assert found.coordinators[0].error_code == 0
        yield broker


class Asking:
    """Asks on one connection after the other, and keeps what was not answered."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self.unanswered: list[str] = []

    def __call__(self, request: Any, version: int) -> None:
        with RawClient(self._broker.bootstrap_servers) as client:
            try:
                client.ask(request, version)
            except (ConnectionError, TimeoutError) as error:
                self.unanswered.append(f"v{version}, {request}: {error!r}")


@pytest.fixture
def ask(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> Iterator[Asking]:
    """Sends requests; afterwards every one must have been answered and no handler have failed."""
    asking = Asking(broker)
    with caplog.at_level(logging.WARNING):
        yield asking
    failed = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert (asking.unanswered, failed) == ([], [])


def value_of(shape: type[Struct], name: str, field: Field, version: int, style: Style, known: bytes) -> Any:
    if field.is_nullable_in(version) and style.nulls in ("all", "lists" if field.is_array else "values"):
        return None
    if name in HARMLESS and shape.__name__.endswith("Request"):
        return HARMLESS[name]
    value: Any
    if not isinstance(field.type, FieldKind):
        value = request_of(field.type, version, style, known)
    elif field.type.name in BITS:
        value = style.number(BITS[field.type.name])
        if name == "acks" and value == 0:
            value = 1  # or nothing is answered
    else:
        value = {
            "uint16": abs(style.number(16)),
            "float64": float(style.number(64)),
            "bool": style.flag,
            "uuid": style.id or known,
            "string": style.text,
            "bytes": style.blob,
            "records": style.blob,
        }[field.type.name]
    return [value] * style.parts if field.is_array else value


def request_of(shape: type[Struct], version: int, style: Style, known: bytes) -> Any:
    return shape(
        **{
            name: value_of(shape, name, field, version, style, known)
            for name, field in shape.FIELDS.items()
            if field.is_in(version)
        }
    )


EVERY_API = [pytest.param(key, id=api.name) for key, api in APIS.items() if api.versions is not None]


@pytest.mark.parametrize("api_key", EVERY_API)
def test_every_well_formed_request_is_answered(broker: EmbeddedBroker, ask: Asking, api_key: int) -> None:
    shape = request_type(api_key)
    with RawClient(broker.bootstrap_servers) as client:
        known = topic_id(client, TOPIC)
    for version in versions(shape):
        for style in STYLES:
            ask(request_of(shape, version, style, known), version)


@pytest.mark.parametrize("api_key", EVERY_API)
def test_any_request_at_all_is_answered(ask: Asking, api_key: int) -> None:
    shape = request_type(api_key)
    special = {(shape, name): st.just(HARMLESS[name]) for name in shape.FIELDS if name in HARMLESS} | {
        (shape, name): st.sampled_from([-1, 1, 5]) for name in shape.FIELDS if name == "acks"
    }
    any_version = st.sampled_from(versions(shape))
    cases = any_version.flatmap(lambda version: st.tuples(any_of(shape, version, special), st.just(version)))

    @settings(max_examples=30, deadline=None, database=None)
    @given(cases)
    def check(case: tuple[Struct, int]) -> None:
        ask(*case)

    check()
