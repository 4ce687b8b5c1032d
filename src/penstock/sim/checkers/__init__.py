"""Checkers: do the clients' histories agree with what was promised?

In the sense of Jepsen's Kafka workload: every message is unique, so from what was acknowledged and what was read
follows where each message lies, and with that what was lost, doubled, moved, or shown to whom it should not be.

    history       what is recorded: sends, polls, crashes, what topics promise to keep
    promises      which crash a write outlives (DESIGN 6), and a log's time cut into eras by those it need not
    log_view      all that is known of one log
    excuses       why something may rightly be missing
    offsets, polls, losses, transactions, groups, copies    the checks
    anomalies     their names
    check         `check(history)`: all of them about logs; `check_coordination`: about groups and transactions

Nothing here runs anything: the simulation records histories, and tests with real processes can.
"""

from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.check import check, check_coordination
from penstock.sim.checkers.history import (
    Commit,
    CommittedRead,
    Copy,
    Crash,
    CrashKind,
    FinalRead,
    History,
    Holding,
    Keeping,
    LogName,
    OperationOutcome,
    Poll,
    RecordDeletion,
    Seen,
    SeenTransaction,
    Send,
    SentMessage,
    Unreadable,
)

__all__ = [
    "Anomaly",
    "AnomalyKind",
    "Commit",
    "CommittedRead",
    "Copy",
    "Crash",
    "CrashKind",
    "FinalRead",
    "History",
    "Holding",
    "Keeping",
    "LogName",
    "OperationOutcome",
    "Poll",
    "RecordDeletion",
    "Seen",
    "SeenTransaction",
    "Send",
    "SentMessage",
    "Unreadable",
    "check",
    "check_coordination",
]
