"""What of the broker's settings decides about transactions."""

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    """As in Kafka, by the names and defaults of `base.coordinator_settings`."""

    timeout_max_ms: int = 15 * 60 * 1000
    expiration_ms: int = 7 * 24 * 3600 * 1000
    two_phase_commit: bool = False
