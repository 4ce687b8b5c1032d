"""Bits that flip while a node is stopped cleanly, in files its next start trusts: an answer is right, or an error."""

from random import Random

import pytest

from penstock.sim.entries import Entry, FlipBit, Operation, Restart
from penstock.sim.plan import Plan, make_plan
from penstock.sim.run import run_plan

SEEDS = range(6)
_DOWN_MS = 1_000


def with_decay(plan: Plan, suffix: str) -> Plan:
    """The operations of a plan, with stops in between during which bits flip, and no other faults."""
    chance = Random(f"decay/{plan.seed}/{suffix}")
    operations: list[Entry] = [entry for entry in plan.entries if isinstance(entry, Operation)]
    last_ms = max(entry.at_ms for entry in operations)
    faults: list[Entry] = []
    for stop_ms in (last_ms // 3, 2 * last_ms // 3):
        faults.append(Restart(stop_ms, _DOWN_MS))
        faults += [FlipBit(stop_ms + _DOWN_MS // 2, suffix) for _ in range(chance.randint(1, 4))]
    return plan.with_entries(sorted([*operations, *faults], key=lambda entry: entry.at_ms))


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_what_decayed_while_a_node_was_stopped_is_never_served(suffix: str) -> None:
    struck = 0
    for seed in SEEDS:
        outcome = run_plan(with_decay(make_plan(seed), suffix))
        problems = "\n".join(map(str, outcome.problems[:5]))
        assert outcome.ok, f"seed {seed}, {suffix}\n{problems}"
        struck += sum(count for (kind, _), count in outcome.struck.items() if kind == FlipBit.kind)
    assert struck, "no bit was flipped"
