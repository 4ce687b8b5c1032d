"""Counters, gauges and histograms, and Prometheus's text format.

A metric is looked up once and then updated without a lock: everything runs on the loop. Label values come from
fixed lists (API names, error codes), never from clients, so that the number of series is bounded.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Labels = tuple[tuple[str, str], ...]


class Counter:
    """Only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Histogram:
    """How often an observation fell into each bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BUCKETS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """All of a broker's metrics, by name and labels."""

    def __init__(self) -> None:
        self._help: dict[str, tuple[str, str]] = {}
        self._counters: dict[str, dict[Labels, Counter]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        self._help[name] = ("counter", help_text)
        return self._counters.setdefault(name, {}).setdefault(tuple(sorted(labels.items())), Counter())

    def histogram(self, name: str, help_text: str, **labels: str) -> Histogram:
        self._help[name] = ("histogram", help_text)
        return self._histograms.setdefault(name, {}).setdefault(tuple(sorted(labels.items())), Histogram())

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """A value that is read when the metrics are scraped."""
        self._help[name] = ("gauge", help_text)
        self._gauges[name] = read

    def render(self) -> str:
        """Everything, in Prometheus's text exposition format."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for name, (kind, help_text) in sorted(self._help.items()):
            yield f"# HELP {name} {help_text}"
            yield f"# TYPE {name} {kind}"
            if kind == "counter":
                for labels, counter in self._counters[name].items():
                    yield f"{name}{_braces(labels)} {counter.value}"
            elif kind == "gauge":
                yield f"{name} {self._gauges[name]():g}"
            else:
                for labels, histogram in self._histograms[name].items():
                    yield from _histogram_lines(name, labels, histogram)


def _histogram_lines(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    below = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        below += count
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield f"{name}_bucket{_braces((*labels, ('le', edge)))} {below}"
    yield f"{name}_sum{_braces(labels)} {histogram.total:g}"
    yield f"{name}_count{_braces(labels)} {below}"


def _braces(labels: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{{{inside}}}" if inside else ""
