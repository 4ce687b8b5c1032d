"""Checkers: whether what clients observed agrees with what the broker promises.

In the sense of Jepsen's Kafka workload: every message is unique, so from what was acknowledged and what was read
follows at which offset each message lies, and so which were lost, duplicated, moved, or shown to readers too early.

    history       what is recorded: sends, polls, crashes, what topics promise to keep
    promises      which crashes an acknowledged write survives , and the eras of a log between crashes that it need not
    log_view      all that is known of one log
    excuses       when a message may be missing: retention, compaction, DeleteRecords, aborted transactions
    offsets, polls, losses, transactions, groups, copies    the checks
    anomalies     their names
    check         `check(history)`: all of them about logs; `check_coordination`: about groups and transactions

Nothing here runs a broker: the simulation records histories, and so do tests with real processes.
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
