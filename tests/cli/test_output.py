import io
from collections.abc import Iterator

from penstock.cli.output import count_of, format_bytes, format_time, table
from penstock.cli.progress import Progress


def test_a_table_puts_numbers_right_and_words_left() -> None:
    lines = list(table(("NAME", "COUNT"), [("a", 5), ("long name", 1234), ("b", None)]))
    assert lines == ["NAME       COUNT", "a              5", "long name   1234", "b              -"]


def test_an_empty_table_is_its_titles() -> None:
    assert list(table(("A", "B"), [], indent="  ")) == ["  A  B"]


def test_a_long_table_is_not_held_in_memory() -> None:
    made = []

    def rows() -> Iterator[tuple[int]]:
        for number in range(5000):
            made.append(number)
            yield (number,)

    lines = table(("N",), rows())
    assert [next(lines).strip() for _ in range(3)] == ["N", "0", "1"]
    assert len(made) < 5000


def test_sizes_and_times_are_for_people() -> None:
    assert [format_bytes(size) for size in (0, 1023, 1024, 5 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 TiB",
    ]
    assert format_time(1_763_281_800_042) == "2025-11-16T08:30:00.042Z"
    assert format_time(-1) == "-"
    assert format_time(2**62) == f"{2**62} ms"
    assert (count_of(1, "record"), count_of(2000, "record")) == ("1 record", "2,000 records")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_moves_at_most_five_times_a_second_and_is_gone_at_the_end() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(watched=True, stream=stream, clock=clock)
    for _ in range(100):
        clock.now += 0.01
        progress.show_counts(record_count=1000, bytes_count=2048)
    assert 4 <= stream.getvalue().count("\r") <= 5
    assert "1,000 records, 2.0 KiB" in stream.getvalue()
    progress.clear()
    last = stream.getvalue().split("\r")
    assert last[-1] == ""
    assert last[-2].strip() == ""


def test_progress_is_not_shown_where_the_stream_is_no_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream=stream, clock=clock)
    clock.now = 100
    progress.show_counts(record_count=1, bytes_count=1)
    progress.clear()
    assert stream.getvalue() == ""


def test_work_that_is_done_at_once_shows_nothing() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(watched=True, stream=stream, clock=clock)
    progress.show_counts(record_count=1, bytes_count=1)
    progress.clear()
    assert stream.getvalue() == ""
