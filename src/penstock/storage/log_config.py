"""The settings a log works by, as plain values. Names, defaults and validation for users live in `base`."""

from dataclasses import dataclass, field

_DAY_MS = 86_400_000
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic settings, as far as they reach the log. Instances are shared between partitions."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS  # -1: keep for ever
    retention_bytes: int = -1  # -1: keep everything
    file_delete_delay_ms: int = 60_000
    compact: bool = False
    delete: bool = True
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    delete_retention_ms: int = _DAY_MS
    decompressed_size_max: int = 256 << 20  # of one batch, where a log has to look at records
    ends_at_damage: bool = (
        False  # truncate the log at a gap that a power cut left, instead of keeping it as damage
    )

    roll_ms: int = field(init=False)  # a compacted log rolls in time for `max.compaction.lag.ms`, too

    def __post_init__(self) -> None:
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
