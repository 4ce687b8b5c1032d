"""Figures as people read them."""

import pytest

from penstock.spark.pipelines.units import COUNT, DURATION, PER_SECOND, count, duration, scale, share


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (0.9999, "1 s"),
        (4.844, "4.8 s"),
        (9.96, "10 s"),
        (40, "40 s"),
        (119.4, "119 s"),
        (125, "2 min 5 s"),
        (600, "10 min"),
        (7_260, "2 h 1 min"),
        (36_000, "10 h"),
    ],
)
def test_a_duration_is_told_in_the_unit_that_people_use(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (9.96, "10.0"),
        (950, "950"),
        (12_345, "12,345"),
        (1_000_000, "1 M"),
        (1_234_567, "1.2 M"),
    ],
)
def test_a_count_is_told_in_full_up_to_a_million(value: float, told: str) -> None:
    assert count(value) == told


@pytest.mark.parametrize(
    ("value", "told"), [(0.62, "62 %"), (0.05, "5 %"), (0.0012, "0.1 %"), (1.0, "100 %")]
)
def test_a_share_is_told_in_percent(value: float, told: str) -> None:
    assert share(value) == told


@pytest.mark.parametrize("unit", [COUNT, PER_SECOND, DURATION])
@pytest.mark.parametrize("largest", [0.001, 0.4, 1, 3, 7.5, 59, 61, 999, 40_000, 1e8])
def test_a_scale_holds_its_largest_value_in_few_round_steps(unit, largest: float) -> None:
    step, top = scale(largest, unit, steps_max=3)

    assert top >= largest
    assert step in unit.steps
    assert round(top / step) in (1, 2, 3)


def test_an_axis_of_durations_has_steps_of_seconds_minutes_and_hours() -> None:
    assert scale(40, DURATION, steps_max=3) == (20, 40)
    assert scale(170, DURATION, steps_max=3) == (60, 180)
