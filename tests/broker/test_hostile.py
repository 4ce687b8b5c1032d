"""A broker that is attacked beside a well-behaved client: `make chaos` for minutes, with narrow bounds; here seconds.

What holds by construction is in test_pipelining and test_memory_of_requests; the bounds here are wide enough for a
busy machine, and far from what an attack does to a broker without those.
"""

import pytest

from tests.chaos.hostile import run as hostile


@pytest.mark.parametrize(
    "attack", ["slow-large-requests", "many-large-requests", "pipelining-100", "pipelining-and-reading"]
)
def test_a_well_behaved_client_beside_an_attack_has_no_errors_and_no_long_wait(attack: str) -> None:
    report = hostile.run(3, say=print, attacks=[attack], ratio_max=20, floor_ms=500)
    assert report.faults == [], str(report)
    assert all(seen.small[0] for seen in report.seen)
