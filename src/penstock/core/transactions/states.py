"""The states of a transactional id. Numbers and names are Kafka's: the log has the numbers, clients see the names.

    EMPTY ──► ONGOING ──► PREPARE_COMMIT ──► COMPLETE_COMMIT
      │          │                              │
      │          └──────► PREPARE_ABORT ──► COMPLETE_ABORT
      └─────────────────────▲   (version 2 may abort what never began)

From both COMPLETE states a new transaction begins (ONGOING), or a new producer (EMPTY).
"""

from enum import IntEnum


class TransactionState(IntEnum):
    """The state of a transactional id."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The state as DescribeTransactions and ListTransactions call it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """No transaction is open: one can begin, or the id can expire."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


STATES = {int(state): state for state in TransactionState}  # a lookup takes a tenth of a call of the class
STATES_BY_LABEL = {state.label: state for state in TransactionState}
