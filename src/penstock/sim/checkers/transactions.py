"""Atomicity: in the end, readers with read_committed see all messages of a transaction, or none."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.excuses import Excuses
from penstock.sim.checkers.history import OperationOutcome, Poll
from penstock.sim.checkers.log_view import Acked, LogView


def find_torn_transactions(logs: Sequence[LogView]) -> Iterator[Anomaly]:
    shown: dict[int, int] = {}  # transaction: one of its messages that was read
    for view in logs:
        for poll in view.polls:
            for seen in poll.seen:
                sent = view.sent.get(seen.message.number)
                if poll.committed_only and sent is not None and sent.send.transaction is not None:
                    shown.setdefault(sent.send.transaction, seen.message.number)
    for view in logs:
        visible = _seen_by_committed_readers(view)
        for acked in view.acked:
            if acked.send.transaction in shown:
                yield from _hidden(view, acked, visible[acked.era], shown)


def _seen_by_committed_readers(view: LogView) -> dict[int, set[int]]:
    """The messages, per era."""
    found: dict[int, set[int]] = defaultdict(set)
    for era, poll in view.read:
        if poll.committed_only:
            found[era].update(seen.message.number for seen in poll.seen)
    return found


def _hidden(view: LogView, acked: Acked, visible: set[int], shown: dict[int, int]) -> Iterator[Anomaly]:
    """Messages of the send that committed readers passed over, with the transaction shown elsewhere."""
    era, send = acked
    assert send.transaction is not None
    transaction = view.transactions.get(send.transaction)
    if transaction is None or transaction.outcome is OperationOutcome.FAILED:
        return  # told as aborted reads
    excuses = Excuses(view)
    for offset, message in enumerate(send.messages, send.base_offset):
        if message.number in visible:
            continue
        last = _last_passing(view, era, offset)
        if last is None or offset < last.log_start:
            continue
        if excuses.compacted(era, offset, message, send, now_ms=last.now_ms):
            continue
        what = (
            f"message {shown[send.transaction]} of transaction {send.transaction} is visible, "
            f"message {message.number} at offset {offset} is not"
        )
        yield Anomaly(AnomalyKind.TORN_TRANSACTION, view.log, what)


def _last_passing(view: LogView, era: int, offset: int) -> Poll | None:
    """The last poll of committed data that went past an offset."""
    found = None
    for each, poll in view.read:
        if each == era and poll.committed_only and poll.position <= offset < poll.next_position:
            found = poll
    return found
