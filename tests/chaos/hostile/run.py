"""One attack after the other, each beside a broker that is left alone."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from peers.penstock import PenstockProcess
from peers.process import WatchedProcess
from tests.chaos.hostile.attacks import ATTACKS, MIB
from tests.chaos.hostile.bystander import TOPIC, Bystander, percentile
from tests.raw_client import RawClient

ROOT = Path(__file__).resolve().parents[3]
REQUEST_BYTES_MAX = 512 * MIB  # queued.max.request.bytes, as it is by default
RATIO_MAX = 2.0
FLOOR_MS = 3.0  # below this the machine is measured, and not the broker
LARGE_FLOOR_MS = 3000.0  # a request of 900 kB may wait until those without progress have lost their memory

Say = Callable[[str], None]


@dataclass
class Seen:
    """What the bystander saw while something went on."""

    name: str
    small: tuple[int, float, float]  # how many, and the 50th and 99th percentile in ms
    large: tuple[int, float, float]
    errors: list[str]
    rss_mib: float  # of the broker, at most

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.small[0]} small requests, p50 {self.small[1]:.1f} ms, p99 {self.small[2]:.1f} ms; "
            f"{self.large[0]} large, p50 {self.large[1]:.1f} ms, p99 {self.large[2]:.1f} ms; "
            f"{len(self.errors)} errors; broker's memory {self.rss_mib:.0f} MiB"
        )


@dataclass
class Report:
    """What was seen, and what is wrong with it."""

    seen: list[Seen] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.seen), *self.faults])


def run(
    seconds: float,
    *,
    seed: int = 0,
    say: Say,
    attacks: Sequence[str] = tuple(ATTACKS),
    ratio_max: float = RATIO_MAX,
    floor_ms: float = FLOOR_MS,
) -> Report:
    """Every attack for its share of `seconds`; the clients ask a broker that is attacked and one that is not."""
    report = Report()
    each_s = seconds / len(attacks)
    for name in attacks:
        with PenstockProcess() as broker, PenstockProcess() as other:
            for each in (broker, other):
                with RawClient(each.bootstrap) as client:
                    client.create_topic(TOPIC, retention_bytes=str(64 * MIB))
            _watch({"warm": broker, "warm too": other}, min(1.0, each_s / 2))
            attacker = WatchedProcess(
                [
                    sys.executable,
                    "-m",
                    "tests.chaos.hostile.attacks",
                    name,
                    broker.bootstrap,
                    str(each_s + 60),
                ],
                directory=ROOT,
            )
            try:
                attacker.wait_for_line(lambda line: "under way" in line, timeout_s=30)
                attacked, quiet = _watch({name: broker, f"quiet beside {name}": other}, each_s)
                said = broker.output
            finally:
                attacker.kill()
            say(str(quiet))
            say(str(attacked))
            report.seen += [quiet, attacked]
            report.faults += _faults(quiet, attacked, ratio_max=ratio_max, floor_ms=floor_ms)
            report.faults += [f"{name}: the broker failed:\n{said}"] if "Traceback" in said else []
    return report


def _faults(quiet: Seen, attacked: Seen, *, ratio_max: float, floor_ms: float) -> list[str]:
    found = [f"{attacked.name}: {error}" for error in (*quiet.errors, *attacked.errors)[:5]]
    if attacked.small[2] > max(floor_ms, ratio_max * quiet.small[2]):
        found.append(
            f"{attacked.name}: p99 of small requests was {attacked.small[2]:.1f} ms; quiet {quiet.small[2]:.1f} ms"
        )
    if attacked.large[2] > max(LARGE_FLOOR_MS, ratio_max * quiet.large[2]):
        found.append(f"{attacked.name}: a large request waited for {attacked.large[2]:.0f} ms")
    if attacked.rss_mib > quiet.rss_mib + 1.15 * REQUEST_BYTES_MAX / MIB:
        found.append(f"{attacked.name}: the broker took {attacked.rss_mib:.0f} MiB")
    return found


def _watch(brokers: dict[str, PenstockProcess], seconds: float) -> list[Seen]:
    """A bystander at each, at the same time: what else the machine is busy with, both see."""
    processes = {name: psutil.Process(broker.pid) for name, broker in brokers.items()}
    rss = dict.fromkeys(brokers, 0)
    over = threading.Event()
    ends_s = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        bystanders = {
            name: stack.enter_context(Bystander(broker.bootstrap)) for name, broker in brokers.items()
        }
        while (left_s := ends_s - time.monotonic()) > 0:
            for name, process in processes.items():
                rss[name] = max(rss[name], process.memory_info().rss)
            over.wait(min(0.05, left_s))
    return [
        Seen(name, _figures(each.small_ms), _figures(each.large_ms), each.errors, rss[name] / MIB)
        for name, each in bystanders.items()
    ]


def _figures(values: list[float]) -> tuple[int, float, float]:
    return len(values), percentile(values, 50), percentile(values, 99)


if __name__ == "__main__":
    print(run(float(sys.argv[1]), say=print, attacks=sys.argv[2:] or tuple(ATTACKS)))
