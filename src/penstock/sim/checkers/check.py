"""All checks over one history."""

from penstock.sim.checkers.anomalies import Anomaly
from penstock.sim.checkers.copies import find_miscopied
from penstock.sim.checkers.groups import find_backward_commits, find_lost_commits, find_shared_partitions
from penstock.sim.checkers.history import History
from penstock.sim.checkers.log_view import views
from penstock.sim.checkers.losses import find_losses
from penstock.sim.checkers.offsets import (
    find_duplicates,
    find_inconsistent_offsets,
    find_nonmonotonic_sends,
    find_skipping_sends,
)
from penstock.sim.checkers.polls import (
    find_aborted_reads,
    find_low_watermarks,
    find_nonmonotonic_polls,
    find_uncommitted_reads,
    find_unwritten_reads,
)
from penstock.sim.checkers.transactions import find_torn_transactions

_CHECKS = (
    find_unwritten_reads,
    find_inconsistent_offsets,
    find_duplicates,
    find_nonmonotonic_sends,
    find_skipping_sends,
    find_nonmonotonic_polls,
    find_low_watermarks,
    find_aborted_reads,
    find_uncommitted_reads,
    find_losses,
)


def check(history: History) -> list[Anomaly]:
    """Every broken promise, log by log; empty if the history is as it should be."""
    logs = views(history)
    found = [anomaly for view in logs for find in _CHECKS for anomaly in find(view)]
    return [*found, *find_torn_transactions(logs)]


def check_coordination(history: History) -> list[Anomaly]:
    """Every broken promise of coordinators; nothing that they keep may have been allowed to be lost."""
    return [
        *find_lost_commits(history),
        *find_backward_commits(history),
        *find_shared_partitions(history),
        *find_miscopied(history),
    ]
