"""Transactions as a whole: who reads committed data sees all of one, in the end, or nothing."""

from collections.abc import Iterator, Sequence

from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.excuses import Excuses
from penstock.sim.checkers.history import Outcome, Send
from penstock.sim.checkers.log_view import LogView


def find_torn_transactions(logs: Sequence[LogView]) -> Iterator[Anomaly]:
    shown: dict[int, int] = {}  # transaction: one of its messages that was read
    for view in logs:
        for poll in view.polls:
            for seen in poll.seen:
                sent = view.sent.get(seen.message.number)
                if poll.committed_only and sent is not None and sent.send.transaction is not None:
                    shown.setdefault(sent.send.transaction, seen.message.number)
    for view in logs:
        for send in view.sends:
            if send.transaction in shown:
                yield from _hidden(view, send, shown)


def _hidden(view: LogView, send: Send, shown: dict[int, int]) -> Iterator[Anomaly]:
    """Messages of the send that committed readers passed over, with the transaction shown elsewhere."""
    assert send.transaction is not None
    transaction = view.transactions.get(send.transaction)
    if transaction is None or transaction.outcome is Outcome.FAILED:
        return  # told as aborted reads
    excuses = Excuses(view)
    for acked in view.acked:
        if acked.send is not send:
            continue
        for offset, message in enumerate(send.messages, send.base_offset):
            passing = [
                poll
                for era, poll in view.read
                if era == acked.era and poll.committed_only and poll.position <= offset < poll.next_position
            ]
            visible = any(seen.message.number == message.number for poll in passing for seen in poll.seen)
            if not passing or visible:
                continue
            last = passing[-1]
            if offset < last.log_start or excuses.compacted(
                acked.era, offset, message, send, now_ms=last.now_ms
            ):
                continue
            what = (
                f"message {shown[send.transaction]} of transaction {send.transaction} is visible, "
                f"message {message.number} at offset {offset} is not"
            )
            yield Anomaly(AnomalyKind.TORN_TRANSACTION, view.log, what)
