"""Histories told in a few words: who sent what, who read it, what crashed between."""

from penstock.sim.checkers import (
    Anomaly,
    AnomalyKind,
    CrashKind,
    FinalRead,
    History,
    Keeping,
    LogName,
    OperationOutcome,
    Poll,
    RecordDeletion,
    Seen,
    SeenTransaction,
    Send,
    SentMessage,
    Unreadable,
    check,
)

LOG = LogName("orders", "first", 0)
NAMESAKE = LogName("orders", "second", 0)
SECOND_PARTITION = LogName("orders", "first", 1)


class Story:
    """One history in the making; every step happens after the one before."""

    def __init__(self, keeping: Keeping | None = None) -> None:
        self.history = History()
        self.history.promise(LOG.topic_id, keeping or Keeping())
        self.now_ms = 0

    def send(
        self,
        *numbers: int,
        at: int = -1,
        outcome: OperationOutcome = OperationOutcome.OK,
        actor: str = "writer",
        log: LogName = LOG,
        key: str | None = None,
        tombstone: bool = False,
        acks: int = -1,
        idempotent: bool = True,
        attempts: int = 1,
        size_bytes: int = 0,
        transaction: int | None = None,
        across: CrashKind | None = None,
    ) -> None:
        began = self.history.tick()
        if across is not None:
            self.history.crash(across)
        self.history.sends.append(
            Send(
                actor,
                (log,),
                tuple(SentMessage(number, key, tombstone) for number in numbers),
                began,
                self.history.tick(),
                outcome,
                acks=acks,
                base_offset=at,
                idempotent=idempotent,
                attempts=attempts,
                size_bytes=size_bytes,
                timestamp_ms=self.now_ms,
                transaction=transaction,
            )
        )

    def poll(
        self,
        seen: dict[int, int],
        *,
        start: int = 0,
        upto: int | None = None,
        actor: str = "reader",
        session: int = 0,
        log: LogName = LOG,
        high_watermark: int = 1000,
        log_start: int = 0,
        committed_only: bool = False,
        key: str | None = None,
        tombstone: bool = False,
    ) -> None:
        """Offsets with the messages read there, in the order read."""
        self.history.polls.append(
            Poll(
                actor,
                session,
                log,
                start,
                max(seen, default=start - 1) + 1 if upto is None else upto,
                tuple(Seen(offset, SentMessage(number, key, tombstone)) for offset, number in seen.items()),
                self.history.tick(),
                self.history.tick(),
                high_watermark,
                log_start=log_start,
                now_ms=self.now_ms,
                committed_only=committed_only,
            )
        )

    def end(self, *, start: int, end: int, log: LogName = LOG) -> None:
        self.history.final_reads.append(FinalRead(log, start, end, self.history.tick(), self.now_ms))

    def fail_to_read(self, first_offset: int, next_offset: int) -> None:
        self.history.unreadable.append(Unreadable(LOG, first_offset, next_offset))

    def crash(self, kind: CrashKind) -> None:
        self.history.crash(kind)

    def damage(self) -> None:
        self.history.damage(LOG)

    def cut(self, before_offset: int) -> None:
        self.history.cuts.append(RecordDeletion(LOG, before_offset))

    def finish(
        self, number: int, outcome: OperationOutcome, *, actor: str = "writer", asked: bool = True
    ) -> None:
        ending = self.history.tick() if asked else None
        self.history.transactions.append(SeenTransaction(number, actor, outcome, ending))

    def anomalies(self) -> list[Anomaly]:
        return check(self.history)

    def kinds(self) -> list[AnomalyKind]:
        """The kinds found, each once, in the order in which they were found."""
        return list(dict.fromkeys(anomaly.kind for anomaly in self.anomalies()))
