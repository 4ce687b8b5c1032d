"""Checks of polls: offsets ascend, none is skipped, nothing is read above the high watermark, or was never sent."""

from collections.abc import Iterator

from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.history import OperationOutcome, Poll, Seen
from penstock.sim.checkers.log_view import LogView


def find_nonmonotonic_polls(view: LogView) -> Iterator[Anomaly]:
    for session in view.sessions():
        last = -1
        for _, poll in session:
            last = max(last, poll.position - 1)
            for seen in poll.seen:
                if seen.offset <= last:
                    what = f"{poll.actor} read offset {seen.offset} after it had passed {last}"
                    yield Anomaly(AnomalyKind.NONMONOTONIC_POLL, view.log, what)
                last = max(last, seen.offset)
            last = max(last, poll.next_position - 1)


def find_low_watermarks(view: LogView) -> Iterator[Anomaly]:
    """Messages that were read or acknowledged are below every later high watermark."""
    for era in sorted(view.at):
        polls = sorted((poll for each, poll in view.read if each == era), key=lambda poll: poll.began)
        shown = [(poll.ended, poll.seen[-1].offset) for poll in polls if poll.seen]
        shown += [(each.send.ended, each.end_offset - 1) for each in view.acked if each.era == era]
        shown.sort(reverse=True)
        highest = -1
        for poll in polls:
            while shown and shown[-1][0] < poll.began:
                highest = max(highest, shown.pop()[1])
            if poll.high_watermark <= highest:
                what = (
                    f"{poll.actor} got the high watermark {poll.high_watermark}, "
                    f"when offset {highest} had been shown or acknowledged"
                )
                yield Anomaly(AnomalyKind.LOW_WATERMARK, view.log, what)


def find_unwritten_reads(view: LogView) -> Iterator[Anomaly]:
    for poll in view.polls:
        for seen in poll.seen:
            problem = _unwritten(view, seen)
            if problem is not None:
                what = f"{poll.actor} read message {seen.message.number} at offset {seen.offset}: {problem}"
                yield Anomaly(AnomalyKind.UNWRITTEN_READ, view.log, what)


def _unwritten(view: LogView, seen: Seen) -> str | None:
    sent = view.sent.get(seen.message.number)
    if sent is None:
        return "it was not sent"
    if view.log not in sent.send.logs:
        return f"it was sent to {sent.send.logs[-1]}"
    return None if sent.message == seen.message else f"it was sent as {sent.message}"


def find_aborted_reads(view: LogView) -> Iterator[Anomaly]:
    """Rejected messages are not read, and aborted ones not with read_committed."""
    told: set[int] = set()
    for poll in view.polls:
        for seen in poll.seen:
            why = _aborted(view, poll, seen.message.number)
            if why is not None and seen.message.number not in told:
                told.add(seen.message.number)
                what = f"{poll.actor} read message {seen.message.number} at offset {seen.offset}, {why}"
                yield Anomaly(AnomalyKind.ABORTED_READ, view.log, what)


def _aborted(view: LogView, poll: Poll, number: int) -> str | None:
    sent = view.sent.get(number)
    if sent is None:
        return None
    if sent.send.outcome is OperationOutcome.FAILED:
        return "which was refused"
    transaction = None if sent.send.transaction is None else view.transactions.get(sent.send.transaction)
    if poll.committed_only and transaction is not None and transaction.outcome is OperationOutcome.FAILED:
        return f"of the aborted transaction {transaction.number}"
    return None


def find_uncommitted_reads(view: LogView) -> Iterator[Anomaly]:
    """No message is read at or above the high watermark, nor before the commit of its transaction was requested."""
    for poll in view.polls:
        for seen in poll.seen:
            number = seen.message.number
            if seen.offset >= poll.high_watermark:
                what = (
                    f"{poll.actor} read message {number} at offset {seen.offset}, "
                    f"with the high watermark at {poll.high_watermark}"
                )
                yield Anomaly(AnomalyKind.UNCOMMITTED_READ, view.log, what)
            sent = view.sent.get(number)
            if sent is None or sent.send.transaction is None or not poll.committed_only:
                continue
            transaction = view.transactions.get(sent.send.transaction)
            if transaction is None or transaction.ending is None or poll.ended < transaction.ending:
                own = sent.send.actor == poll.actor
                kind = AnomalyKind.OWN_UNCOMMITTED_READ if own else AnomalyKind.UNCOMMITTED_READ
                what = (
                    f"{poll.actor} read message {number} of transaction {sent.send.transaction}, still open"
                )
                yield Anomaly(kind, view.log, what)
