"""What a reader was given, as a history has it."""

from penstock.client.fetch import Fetched, read_batches, read_fetched
from penstock.sim.checkers import LogName, Poll, Seen
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.records import to_message


def committed_poll(
    fetched: Fetched,
    *,
    actor: str,
    session: int,
    log: LogName,
    position: int,
    began: int,
    journal: Journal,
    now_ms: int,
) -> Poll:
    """One answer to a reader of committed data."""
    next_position = position
    seen: list[Seen] = []
    for header, batch in read_batches(fetched):
        for record in read_fetched(batch, header, from_offset=position):
            seen.append(Seen(record.offset, to_message(record)))
        next_position = max(next_position, header.next_offset)
    return Poll(
        actor,
        session,
        log,
        position,
        next_position,
        tuple(seen),
        began,
        journal.history.tick(),
        fetched.high_watermark,
        log_start=fetched.log_start_offset,
        now_ms=now_ms,
        committed_only=True,
    )
