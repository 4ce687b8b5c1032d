"""Errors of readers of batches.

    PenstockError
    └── CorruptBatchError            the batch is damaged
        └── DecompressionLimitError      the batch would decompress to more than the reader's limit

Produce answers an `ErrorCode` instead (see `batch.check_produced` and `record.validate_records`): a client's
invalid batch is an expected error. These two are for readers of stored or fetched batches.
"""

from penstock.base.errors import PenstockError


class CorruptBatchError(PenstockError):
    """Bytes that are no valid record batch, or records that do not fill theirs exactly."""


class DecompressionLimitError(CorruptBatchError):
    """A batch whose records would take more memory than the limit allows."""
