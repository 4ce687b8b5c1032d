"""One run: every measure on both brokers in turn, so that what else the machine does hits both alike."""

import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.contestants import PENSTOCK, Contestant, beside_kafka, warm_up
from bench.measures import Measure
from bench.progress import StepProgress
from bench.rows import Result, combine, results
from bench.scale import Scale
from bench.spark_sides import SparkSide, spark_sides

_START_SECONDS = 6
_START_SPARK_SECONDS = 12


class Outcome(NamedTuple):
    """What a run found: the table's rows, every round's figures, and which measures failed."""

    results: list[Result]
    rounds: dict[str, dict[str, list[dict[str, float]]]]  # measure → broker → one per round
    failures: list[str]


def run_all(
    measures: Sequence[Measure],
    scale: Scale,
    *,
    brokers: Sequence[Contestant] | None = None,
    progress: Callable[[Sequence[tuple[str, float]]], StepProgress] = StepProgress,
) -> Outcome:
    """Measure everything. A measure that fails on one broker leaves its rows there empty and is named."""
    taking_part = beside_kafka() if brokers is None else brokers
    shown = progress(_steps(measures, scale, taking_part))
    outcome = Outcome([], {}, [])
    for is_warm in (False, True):
        chosen = _of_brokers(measures, is_warm)
        with contextlib.ExitStack() as stack:
            if is_warm and chosen:
                for contestant in taking_part:
                    shown.next()
                    stack.enter_context(contestant)
                    warm_up(contestant, scale)
            for measure in chosen:
                _run_measure(measure, scale, taking_part, shown, outcome)
    _run_on_spark([measure for measure in measures if measure.is_spark], scale, shown, outcome)
    shown.clear()
    return outcome


def _of_brokers(measures: Sequence[Measure], is_warm: bool) -> list[Measure]:
    return [measure for measure in measures if measure.is_warm is is_warm and not measure.is_spark]


def _run_on_spark(measures: Sequence[Measure], scale: Scale, shown: StepProgress, outcome: Outcome) -> None:
    """When the brokers are gone: Spark's session has the machine for itself, with one broker of its own."""
    if not measures:
        return
    shown.next()
    with spark_sides() as sides:
        for measure in measures:
            _run_measure(measure, scale, sides, shown, outcome)


def _run_measure(
    measure: Measure,
    scale: Scale,
    brokers: Sequence[Contestant] | Sequence[SparkSide],
    shown: StepProgress,
    outcome: Outcome,
) -> None:
    found: dict[str, list[dict[str, float]]] = {contestant.name: [] for contestant in brokers}
    for round_number in range(measure.rounds(scale)):
        # A, B, B, A: neither always follows the other.
        for contestant in brokers if round_number % 2 == 0 else list(reversed(brokers)):
            shown.next()
            os.sync()  # what the one before wrote is not written out during the next one's turn
            try:
                found[contestant.name].append(measure.turn(contestant, scale))
            except Exception as error:
                outcome.failures.append(
                    f"{measure.name} on {contestant.name}: {type(error).__name__}: {error}"
                )
    outcome.rounds[measure.name] = found
    rows = measure.rows(scale)
    combined = {name: combine(rows, rounds) for name, rounds in found.items()}
    penstock = combined.pop(PENSTOCK, {})
    peer = next(iter(combined.values()), {})
    outcome.results.extend(results(rows, penstock=penstock, peer=peer))


def _steps(
    measures: Sequence[Measure], scale: Scale, brokers: Sequence[Contestant]
) -> list[tuple[str, float]]:
    steps = []
    for is_warm in (False, True):
        chosen = _of_brokers(measures, is_warm)
        if is_warm and chosen:
            seconds = _START_SECONDS + 2 * scale.warm_up_seconds
            steps += [(f"warming up {contestant.name}", seconds) for contestant in brokers]
        for measure in chosen:
            turns = measure.rounds(scale) * len(brokers)
            steps += [(measure.title, measure.seconds(scale))] * turns
    on_spark = [measure for measure in measures if measure.is_spark]
    if on_spark:
        steps.append(("starting Spark", _START_SPARK_SECONDS))
    for measure in on_spark:
        steps += [(measure.title, measure.seconds(scale))] * measure.rounds(scale) * 2
    return steps


def environment() -> dict[str, Any]:
    """What the figures depend on, for the raw results and the picture."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "penstock.produce.validation": "header",
        "kafka": "4.3.1, KRaft, one node, -Xmx1g",
    }
