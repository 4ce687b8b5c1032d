"""What is wrong with a batch, as exceptions.

    PenstockError
    └── CorruptBatchError            the bytes are not what they claim to be
        └── DecompressionLimitError      they may be, but would inflate to more than the reader agreed to hold

Produce answers an `ErrorCode` instead (see `batch.check_produced` and `record.validate_records`): a client's
bad batch is an expected answer. These two are for readers, who found a batch where only good ones should be.
"""

from penstock.base.errors import PenstockError


class CorruptBatchError(PenstockError):
    """Bytes that are no valid record batch, or records that do not fill theirs exactly."""


class DecompressionLimitError(CorruptBatchError):
    """A batch whose records would take more memory than the limit allows."""
