"""Reading `listeners` and `advertised.listeners`."""

import pytest

from penstock.base.errors import SettingError
from penstock.base.listeners import (
    Listener,
    advertised_listeners,
    bound_listeners,
    parse_address,
    parse_listener,
    render_address,
)

PLAIN = ["PLAINTEXT:PLAINTEXT"]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9092", "localhost", 9092),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:9092", "::1", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        (":9092", "", 9092),
        ("a-b.example:65535", "a-b.example", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, port):
    assert parse_address(text) == (host, port)
    assert render_address(host, port) == text


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", "localhost:x", "h:65536", "::1:9092", "a/b:1", "[]:1", "h:-1"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(SettingError, match="is not an address"):
        parse_address(text)


def test_a_listener_has_a_name_in_upper_case():
    assert parse_listener("plaintext://[::1]:0") == Listener("PLAINTEXT", "::1", 0)
    assert str(parse_listener("plaintext://[::1]:0")) == "PLAINTEXT://[::1]:0"
    with pytest.raises(SettingError, match="is not a listener"):
        parse_listener("localhost:9092")


def test_several_listeners_need_names_protocols_and_addresses_of_their_own():
    protocols = ["INSIDE:PLAINTEXT", "outside:plaintext"]
    texts = ["INSIDE://127.0.0.1:9092", "OUTSIDE://127.0.0.1:9093"]
    assert [one.name for one in bound_listeners(texts, protocols)] == ["INSIDE", "OUTSIDE"]
    with pytest.raises(SettingError, match="INSIDE more than once"):
        bound_listeners(["INSIDE://h:1", "INSIDE://h:2"], protocols)
    with pytest.raises(SettingError, match="the same address"):
        bound_listeners(["INSIDE://h:1", "OUTSIDE://h:1"], protocols)
    with pytest.raises(SettingError, match="has to say INSIDE:PLAINTEXT"):
        bound_listeners(texts, PLAIN)


def test_two_listeners_may_both_take_any_free_port():
    assert len(bound_listeners(["A://h:0", "B://h:0"], ["A:PLAINTEXT", "B:PLAINTEXT"])) == 2


def test_a_broker_without_listeners_is_refused():
    with pytest.raises(SettingError, match="needs one listener"):
        bound_listeners([], PLAIN)


@pytest.mark.parametrize("pair", ["PLAINTEXT:SSL", "PLAINTEXT", "PLAINTEXT:"])
def test_a_protocol_that_is_not_spoken_is_refused(pair):
    with pytest.raises(SettingError, match=r"no other protocol is spoken yet|SSL is not supported yet"):
        bound_listeners(["PLAINTEXT://h:1"], [pair])


def test_bound_listeners_are_advertised_by_default():
    bound = bound_listeners(["PLAINTEXT://localhost:9092"], PLAIN)
    assert advertised_listeners([], bound) == bound
    assert advertised_listeners(["PLAINTEXT://broker.example:19092"], bound) == (
        Listener("PLAINTEXT", "broker.example", 19092),
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_an_address_that_no_client_can_connect_to_is_not_advertised(host):
    bound = bound_listeners([f"PLAINTEXT://{host}:9092"], PLAIN)
    with pytest.raises(SettingError, match="no client can connect to"):
        advertised_listeners([], bound)
    assert advertised_listeners(["PLAINTEXT://localhost:9092"], bound)[0].host == "localhost"


def test_only_what_is_bound_can_be_advertised():
    bound = bound_listeners(["PLAINTEXT://localhost:9092"], PLAIN)
    with pytest.raises(SettingError, match="listeners has no OTHER"):
        advertised_listeners(["OTHER://localhost:9092"], bound)
