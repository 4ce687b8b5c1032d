"""Formats figures: 850 ms, 4.2 s, 2 min 5 s; 950, 12,345, 1.2 M. Pure."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600


class Unit(NamedTuple):
    """The format of an axis's values, and the round steps between its lines."""

    show: Callable[[float], str]
    steps: Sequence[float]


def duration(seconds: float) -> str:
    """The largest unit that says something, and the next one below a hundred of it."""
    if not seconds:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 2 * _MINUTE_S:
        return f"{whole} s"
    if whole < 2 * _HOUR_S:
        minutes, rest = divmod(whole, _MINUTE_S)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole // _MINUTE_S, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def count(value: float) -> str:
    """A number of things."""
    if value >= 1e6:
        return f"{value / 1e6:,.1f} M".replace(".0 M", " M")
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def share(value: float) -> str:
    """A part of one, in percent."""
    return f"{value * 100:.0f} %" if value >= 0.0995 else f"{value * 100:.1f} %".replace(".0 %", " %")


def _decades(first: int, last: int) -> tuple[float, ...]:
    return tuple(factor * 10.0**power for power in range(first, last) for factor in (1, 2, 5))


COUNT: Final = Unit(count, _decades(0, 12))
PER_SECOND: Final = Unit(lambda value: f"{count(value)}/s", _decades(0, 12))
DURATION: Final = Unit(
    duration,
    (
        *_decades(-3, 0),
        1,
        2,
        5,
        10,
        20,
        30,
        60,
        120,
        300,
        600,
        1_200,
        1_800,
        *(_HOUR_S * each for each in _decades(0, 6)),
    ),
)


def scale(largest: float, unit: Unit, *, steps_max: int) -> tuple[float, float]:
    """A round step and a round top, so that there are at most so many steps."""
    step = next((each for each in unit.steps if largest <= each * steps_max), unit.steps[-1])
    return step, step * max(1, math.ceil(largest / step - 1e-9))
