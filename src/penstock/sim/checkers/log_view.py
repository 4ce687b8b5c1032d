"""All that a history says about one log: which message lies at which offset, who observed it, in which era."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.sim.checkers.history import (
    NO_OFFSET,
    FinalRead,
    History,
    Keeping,
    LogName,
    OperationOutcome,
    Poll,
    SeenTransaction,
    Send,
    SentMessage,
)
from penstock.sim.checkers.promises import Eras, promises_anything


class Acked(NamedTuple):
    """A send whose offset was acknowledged."""

    era: int
    send: Send

    @property
    def end_offset(self) -> int:
        return self.send.base_offset + len(self.send.messages)


class Sent(NamedTuple):
    """One message and the send that carried it."""

    message: SentMessage
    send: Send


class LogView:
    """One log as its clients saw it."""

    def __init__(
        self,
        log: LogName,
        history: History,
        *,
        sends: Iterable[Send],
        polls: Iterable[Poll],
        sent: Mapping[int, Sent],
        transactions: Mapping[int, SeenTransaction],
    ) -> None:
        self.log = log
        self.keeping = history.keeping.get(log.topic_id, Keeping())
        self.clock_slack_ms = history.clock_slack_ms
        self.eras = Eras(log, self.keeping, history.crashes, history.damages)
        self.sends = list(sends)  # that may have gone here
        self.polls = list(polls)
        self.sent = sent
        self.transactions = transactions
        self.cut_before = max((cut.before_offset for cut in history.cuts if cut.log == log), default=0)
        self.final: FinalRead | None = next((each for each in history.final_reads if each.log == log), None)
        self.unreadable = [each for each in history.unreadable if each.log == log]
        self.acked = [Acked(era, send) for send in self.sends if (era := self._told_in(send)) is not None]
        self.read = [
            (era, poll) for poll in self.polls if (era := self.eras.of(poll.began, poll.ended)) is not None
        ]
        # Per era: the messages observed at an offset, each once, in the order of observation.
        self.at: dict[int, dict[int, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
        # Per era: the offsets of each message; and the messages that a reader saw.
        self.offsets: dict[int, dict[int, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
        self.seen: dict[int, set[int]] = defaultdict(set)
        self._collect()

    def _told_in(self, send: Send) -> int | None:
        told = (
            send.outcome is OperationOutcome.OK
            and send.base_offset != NO_OFFSET
            and send.logs[-1] == self.log
        )
        if not told or not promises_anything(send.acks):
            return None
        return self.eras.of(send.began, send.ended)

    def _collect(self) -> None:
        for era, send in self.acked:
            for offset, message in enumerate(send.messages, send.base_offset):
                self._place(era, offset, message.number)
        for era, poll in self.read:
            for offset, message in poll.seen:
                self._place(era, offset, message.number)
                self.seen[era].add(message.number)

    def _place(self, era: int, offset: int, number: int) -> None:
        self.at[era][offset][number] = None
        self.offsets[era][number][offset] = None

    def known(self, era: int) -> list[tuple[int, int]]:
        """Offsets with their message, in order of offsets; those with several messages left out."""
        placed = self.at.get(era, {})
        return [
            (offset, next(iter(numbers))) for offset, numbers in sorted(placed.items()) if len(numbers) == 1
        ]

    def sessions(self) -> Iterator[list[tuple[int, Poll]]]:
        """The polls of each reader's session, in their order."""
        found: dict[tuple[str, int], list[tuple[int, Poll]]] = {}
        for era, poll in self.read:
            found.setdefault((poll.actor, poll.session), []).append((era, poll))
        yield from found.values()


def views(history: History) -> list[LogView]:
    """One view for each log that anything is known of."""
    sends: dict[LogName, list[Send]] = {}
    polls: dict[LogName, list[Poll]] = {}
    for send in history.sends:
        for log in dict.fromkeys(send.logs):
            sends.setdefault(log, []).append(send)
    for poll in history.polls:
        polls.setdefault(poll.log, []).append(poll)
    sent = {message.number: Sent(message, send) for send in history.sends for message in send.messages}
    transactions = {each.number: each for each in history.transactions}
    return [
        LogView(
            log,
            history,
            sends=sends.get(log, ()),
            polls=polls.get(log, ()),
            sent=sent,
            transactions=transactions,
        )
        for log in sorted({**sends, **polls})
    ]
