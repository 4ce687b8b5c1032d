"""The broker's settings for transactions."""

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    """transaction.max.timeout.ms and its neighbours, with Kafka's defaults."""

    timeout_max_ms: int = 15 * 60 * 1000
    expiration_ms: int = 7 * 24 * 3600 * 1000
    two_phase_commit: bool = False
