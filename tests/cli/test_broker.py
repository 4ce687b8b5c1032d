"""What `penstock broker` prints, and the progress of `drain`."""

from io import StringIO

from penstock.cli.broker import Left, Pace
from penstock.cli.progress import Progress
from tests.cli.running import Penstock


def test_a_broker_that_is_alone_is_shown_and_cannot_be_drained(penstock: Penstock) -> None:
    assert "serving" in penstock("broker", "list").out
    assert "on disk" in penstock("broker", "describe", "1").out
    outcome = penstock("broker", "drain", "1")
    assert outcome.code == 1
    assert "broker 1 cannot be drained: no other broker could take its replicas" in outcome.err


def left(partitions: int, *, size: int = 0) -> Left:
    return Left(partitions, leads=0, size=size, stranded=0)


def test_time_left_follows_from_what_has_gone_in_bytes_or_else_in_partitions() -> None:
    pace = Pace(left(10, size=1000), 100.0)
    assert pace.seconds_left(left(10, size=1000), 105.0) is None
    assert pace.seconds_left(left(9, size=750), 110.0) == 30
    assert pace.seconds_left(left(5, size=1000), 110.0) == 10


def test_the_line_has_partitions_leaders_bytes_and_time() -> None:
    assert left(1, size=2048).text(None) == "1 partition left, leads 0, 2.0 KiB"
    assert left(12, size=2048).text(90) == "12 partitions left, leads 0, 2.0 KiB, about 90 s to go"
    assert left(12).text(600).endswith("about 10 min to go")
    assert left(12).text(86400).endswith("about 24 h to go")


def test_a_line_takes_the_place_of_the_last_one() -> None:
    stream, now = StringIO(), [0.0]
    progress = Progress(watched=True, stream=stream, clock=lambda: now[0])
    for line in ("a long line", "short"):
        now[0] += 1
        progress.show(line)
    progress.show("too soon")
    progress.clear()
    assert stream.getvalue() == "\ra long line\rshort      \r     \r"
