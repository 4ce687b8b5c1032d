"""Where messages lie: one message at an offset, one offset for a message, batches whole and in the order sent."""

from collections.abc import Iterator

from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.history import OperationOutcome
from penstock.sim.checkers.log_view import LogView


def find_inconsistent_offsets(view: LogView) -> Iterator[Anomaly]:
    for placed in view.at.values():
        for offset, numbers in placed.items():
            if len(numbers) > 1:
                what = f"offset {offset} has held the messages {_listed(numbers)}"
                yield Anomaly(AnomalyKind.INCONSISTENT_OFFSET, view.log, what)


def find_duplicates(view: LogView) -> Iterator[Anomaly]:
    told: set[int] = set()
    for placed in view.offsets.values():
        for number, offsets in placed.items():
            sent = view.sent.get(number)
            if len(offsets) > 1 and sent is not None and sent.send.lies_once and number not in told:
                told.add(number)
                what = f"message {number} lies at the offsets {_listed(offsets)}"
                yield Anomaly(AnomalyKind.DUPLICATE, view.log, what)
    yield from _moved(view, told)


def _moved(view: LogView, told: set[int]) -> Iterator[Anomaly]:
    """A send that was answered before a crash is not retried: after the crash it is at its offset, or lost."""
    places: dict[int, tuple[int, int]] = {}
    for era in sorted(view.offsets):
        for number, offsets in view.offsets[era].items():
            sent = view.sent.get(number)
            if sent is None or not sent.send.lies_once or number in told:
                continue
            before = places.setdefault(number, (era, next(iter(offsets))))
            settled = sent.send.outcome is OperationOutcome.OK and sent.send.ended < view.eras.start(era)
            if before[0] != era and settled and before[1] not in offsets:
                told.add(number)
                what = (
                    f"message {number} lay at offset {before[1]} and lies at {_listed(offsets)} after a crash"
                )
                yield Anomaly(AnomalyKind.DUPLICATE, view.log, what)


def find_nonmonotonic_sends(view: LogView) -> Iterator[Anomaly]:
    """A send that began when another had been acknowledged lies above it, also with different producers."""
    for era in sorted(view.at):
        acked = [each.send for each in view.acked if each.era == era]
        ending = iter(sorted(acked, key=lambda send: send.ended))
        ended = next(ending, None)
        highest = None
        for send in sorted(acked, key=lambda send: send.began):
            while ended is not None and ended.ended < send.began:
                if highest is None or ended.base_offset > highest.base_offset:
                    highest = ended
                ended = next(ending, None)
            if highest is not None and highest.base_offset >= send.base_offset:
                what = (
                    f"{send.actor} got offset {send.base_offset} after "
                    f"{highest.actor} had been told {highest.base_offset}"
                )
                yield Anomaly(AnomalyKind.NONMONOTONIC_SEND, view.log, what)


def find_skipping_sends(view: LogView) -> Iterator[Anomaly]:
    for send in view.sends:
        if not send.lies_once:
            continue
        for era, placed in view.offsets.items():
            bases = {
                next(iter(offsets)) - index: None
                for index, message in enumerate(send.messages)
                if len(offsets := placed.get(message.number, {})) == 1
            }
            if len(bases) > 1:
                numbers = [message.number for message in send.messages]
                places = [_listed(view.offsets[era].get(number, {})) or "none" for number in numbers]
                what = f"the batch of the messages {_listed(numbers)} lies at the offsets {', '.join(places)}"
                yield Anomaly(AnomalyKind.SKIPPING_SEND, view.log, what)


def _listed(numbers: object) -> str:
    assert isinstance(numbers, dict | list)
    return ", ".join(str(number) for number in numbers)
