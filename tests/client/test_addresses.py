import pytest

from penstock.base.errors import UserError
from penstock.client.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("one:1, two:2,", [("one", 1), ("two", 2)]),
        ("kafka.example.org", [("kafka.example.org", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("::1", [("::1", 9092)]),
        ("host:", [("host", 9092)]),
    ],
)
def test_a_list_of_brokers_is_read_as_people_write_it(text: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize("text", ["", " , ", "host:port", "host:0", "host:65536", ":9092"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match="host:port"):
        parse_addresses(text)


def test_an_address_is_printed_the_way_it_is_written() -> None:
    assert str(Address("localhost", 9092)) == "localhost:9092"
    assert str(Address("::1", 9092)) == "[::1]:9092"
