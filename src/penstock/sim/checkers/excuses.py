"""Why a message may be missing from its offset: retention, DeleteRecords, compaction, an aborted transaction."""

from bisect import bisect_right
from functools import cached_property

from penstock.sim.checkers.history import OperationOutcome, Poll, Send, SentMessage
from penstock.sim.checkers.log_view import LogView


class Excuses:
    """Which messages the rules of one log allow to be missing."""

    def __init__(self, view: LogView) -> None:
        self._view = view

    def below_the_start(self, offset: int, send: Send, *, now_ms: int) -> bool:
        """Whether the log may start above `offset` by now."""
        keeping = self._view.keeping
        if offset < self._view.cut_before:
            return True
        if keeping.retention_ms is not None and self._age_ms(send, now_ms) >= keeping.retention_ms:
            return True
        return keeping.retention_bytes is not None and self._bytes_after(offset) >= keeping.retention_bytes

    def within(self, era: int, offset: int, number: int, poll: Poll) -> bool:
        """Whether a reader that passes `offset` in this poll may miss what lies there."""
        if offset < poll.log_start:
            return True
        message, send = self._view.sent[number]
        if poll.committed_only and self._is_not_committed(send):
            return True
        return self.compacted(era, offset, message, send, now_ms=poll.now_ms)

    def compacted(self, era: int, offset: int, message: SentMessage, send: Send, *, now_ms: int) -> bool:
        """Whether compaction may have taken a message."""
        keeping = self._view.keeping
        if not keeping.compacts:
            return False
        if message.key is None or self._may_be_superseded(era, offset, message):
            return True
        tombstones_ms = keeping.tombstones_ms
        return message.tombstone and tombstones_ms is not None and self._age_ms(send, now_ms) >= tombstones_ms

    def _age_ms(self, send: Send, now_ms: int) -> int:
        """The greatest age by the broker's clock."""
        return now_ms - send.timestamp_ms + self._view.clock_slack_ms

    def _is_not_committed(self, send: Send) -> bool:
        if send.transaction is None:
            return False
        transaction = self._view.transactions.get(send.transaction)
        return transaction is None or transaction.outcome is not OperationOutcome.OK

    def _may_be_superseded(self, era: int, offset: int, message: SentMessage) -> bool:
        """Whether another message of the same key lies further on, or may."""
        for other, send in self._by_key.get(message.key, ()):
            if other.number == message.number:
                if not send.lies_once:
                    return True  # its own second copy
                continue
            places = self._view.offsets[era].get(other.number)
            if places is None or max(places) > offset or not send.lies_once:
                return True
        return False

    @cached_property
    def _by_key(self) -> dict[str | None, list[tuple[SentMessage, Send]]]:
        found: dict[str | None, list[tuple[SentMessage, Send]]] = {}
        for send in self._view.sends:
            if send.outcome is not OperationOutcome.FAILED:
                for message in send.messages:
                    found.setdefault(message.key, []).append((message, send))
        return found

    def _bytes_after(self, offset: int) -> int:
        """At most how many bytes can lie above `offset`."""
        ends, totals = self._bytes_upto
        return totals[-1] - totals[bisect_right(ends, offset)]

    @cached_property
    def _bytes_upto(self) -> tuple[list[int], list[int]]:
        """The ends of the batches whose place is known, and how many bytes lie below each at least."""
        total = sum(
            send.size_bytes * (1 if send.lies_once else send.attempts)
            for send in self._view.sends
            if send.outcome is not OperationOutcome.FAILED
        )
        certain = len(self._view.eras.breaks) == 0
        placed = [each for each in self._view.acked if each.send.lies_once] if certain else []
        ends, below = [], [0]
        for each in sorted(placed, key=lambda each: each.end_offset):
            ends.append(each.end_offset - 1)
            below.append(below[-1] + each.send.size_bytes)
        below.append(total)
        return ends, below
