"""Missing messages: skipped by a reader, below the log start offset, or above the log end offset."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.excuses import Excuses
from penstock.sim.checkers.history import FinalRead, Poll
from penstock.sim.checkers.log_view import LogView


def find_losses(view: LogView) -> Iterator[Anomaly]:
    """Lost and unseen writes, and polls that skip. Each message is reported once."""
    told: set[int] = set()
    excuses = Excuses(view)
    for find in (_passed_over, _beyond_the_ends, _unreadable, _holes):
        for number, anomaly in find(view, excuses):
            if number not in told:
                told.add(number)
                yield anomaly


def _passed_over(view: LogView, excuses: Excuses) -> Iterator[tuple[int, Anomaly]]:
    known = {era: view.known(era) for era in sorted(view.at)}
    for era, poll in view.read:
        for offset, number in _missing(known.get(era, []), poll):
            if number not in view.sent or excuses.within(era, offset, number, poll):
                continue
            if number in view.seen[era]:
                what = (
                    f"{poll.actor} passed over message {number} at offset {offset}, which others read there"
                )
                yield number, Anomaly(AnomalyKind.SKIPPING_POLL, view.log, what)
            else:
                what = f"message {number} was acknowledged at offset {offset}; {poll.actor} found it gone"
                yield number, Anomaly(AnomalyKind.LOST_WRITE, view.log, what)


def _missing(known: list[tuple[int, int]], poll: Poll) -> Iterator[tuple[int, int]]:
    """Messages at offsets that this poll passed, and that are not in it."""
    returned = {seen.offset for seen in poll.seen}
    index = bisect_left(known, (poll.position, -1))
    while index < len(known) and known[index][0] < poll.next_position:
        if known[index][0] not in returned:
            yield known[index]
        index += 1


def _beyond_the_ends(view: LogView, excuses: Excuses) -> Iterator[tuple[int, Anomaly]]:
    final = view.final
    era = None if final is None else view.eras.of(final.at, final.at)
    if final is None or era is None:
        return
    for offset, number in view.known(era):
        if number not in view.sent or final.start <= offset < final.end:
            continue
        if offset < final.start:
            if not _may_be_below(view, excuses, era, final, offset, number):
                what = f"message {number} lay at offset {offset}; the log starts at {final.start}"
                yield number, Anomaly(AnomalyKind.LOST_WRITE, view.log, what)
        elif number in view.seen[era]:
            what = f"message {number} was read at offset {offset}; the log ends at {final.end}"
            yield number, Anomaly(AnomalyKind.LOST_WRITE, view.log, what)
        else:
            what = f"message {number} was acknowledged at offset {offset}; the log ends at {final.end}"
            yield number, Anomaly(AnomalyKind.UNSEEN_WRITE, view.log, what)


def _may_be_below(
    view: LogView, excuses: Excuses, era: int, final: FinalRead, offset: int, number: int
) -> bool:
    message, send = view.sent[number]
    return excuses.below_the_start(offset, send, now_ms=final.now_ms) or excuses.compacted(
        era, offset, message, send, now_ms=final.now_ms
    )


def _unreadable(view: LogView, excuses: Excuses) -> Iterator[tuple[int, Anomaly]]:
    """Unreadable records are lost, unless the device damaged them."""
    final = view.final
    era = None if final is None else view.eras.of(final.at, final.at)
    if final is None or era is None or view.eras.damaged:
        return
    for offset, number in view.known(era):
        if number not in view.sent or not any(
            each.first_offset <= offset < each.next_offset for each in view.unreadable
        ):
            continue
        message, send = view.sent[number]
        if not excuses.compacted(era, offset, message, send, now_ms=final.now_ms):
            what = f"message {number} was acknowledged at offset {offset}, which cannot be read any more"
            yield number, Anomaly(AnomalyKind.LOST_WRITE, view.log, what)


def _holes(view: LogView, excuses: Excuses) -> Iterator[tuple[int, Anomaly]]:
    """A crash may take a log's end, never its middle: below what is still there, all is still there.

    A compacted log may have gaps anywhere, so gaps prove nothing: records that were not synced may be missing.
    """
    if view.keeping.compacts:
        return
    for before, after in _neighbours(view):
        survivors = {number: offset for offset, number in view.known(before)}
        for era, poll in view.read:
            if era != after:
                continue
            old = [seen.offset for seen in poll.seen if survivors.get(seen.message.number) == seen.offset]
            if not old:
                continue
            for offset, number in _missing(view.known(before), poll):
                if offset > old[-1] or number not in view.sent:
                    continue
                if not excuses.within(before, offset, number, poll):
                    what = f"message {number} at offset {offset} went in a crash that left offset {old[-1]}"
                    yield number, Anomaly(AnomalyKind.LOST_WRITE, view.log, what)


def _neighbours(view: LogView) -> list[tuple[int, int]]:
    eras = sorted(view.at)
    return list(pairwise(eras))
