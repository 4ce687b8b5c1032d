from datetime import UTC, datetime

import pytest

from penstock.cli.parsing import UsageError, new_parser
from penstock.cli.positions import BeforeEnd, End, Position, parse_position
from penstock.client.offsets import AtOffset, AtTime

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", End.BEGINNING),
        ("end", End.END),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-10", BeforeEnd(10)),
        ("-1h", AtTime(NOW_MS - 3_600_000)),
        ("-1.5m", AtTime(NOW_MS - 90_000)),
        ("-500ms", AtTime(NOW_MS - 500)),
        ("-99999d", AtTime(0)),
        ("1763281800000ms", AtTime(1_763_281_800_000)),
        (
            "2026-11-16T08:30:00+00:00",
            AtTime(int(datetime(2026, 11, 16, 8, 30, tzinfo=UTC).timestamp() * 1000)),
        ),
        (
            "2026-11-16T08:30:00.250Z",
            AtTime(int(datetime(2026, 11, 16, 8, 30, tzinfo=UTC).timestamp() * 1000) + 250),
        ),
        ("2026-11-16", AtTime(int(datetime(2026, 11, 16).astimezone().timestamp() * 1000))),
    ],
)
def test_places_are_read_as_people_write_them(text: str, position: Position) -> None:
    assert parse_position(text, now_ms=NOW_MS) == position


@pytest.mark.parametrize("text", ["", "start", "1h", "-", "-1x", "12:30", "1e3", "--5"])
def test_what_is_no_place_is_refused_with_examples(text: str) -> None:
    with pytest.raises(
        UsageError, match="is not a position in a topic; write beginning, end, an offset, -10, -1h"
    ):
        parse_position(text, now_ms=NOW_MS)


def test_a_place_with_a_minus_sign_needs_no_equals_sign() -> None:
    parser = new_parser("test")
    parser.add_signed_argument("--from")
    parser.add_argument("-n")
    assert parser.with_values_attached(["--from", "-1h", "-n", "-3"]) == ["--from=-1h", "-n", "-3"]
    assert parser.with_values_attached(["--from", "--other"]) == ["--from", "--other"]
