"""The records of __transaction_state (type 0): `encode` and `decode`.

Values are written in version 1, which carries what transactions of version 2 need, and read in both. Where the feature
`transaction.version` is at level 0, all that version 0 can carry is written in it.
"""

from collections.abc import Callable
from typing import Final

from penstock.records.internal.fast_encoders import encode_transaction
from penstock.records.internal.record import InternalRecord, RecordFormat, RecordType, RecordValue
from penstock.records.internal.transaction_shapes import TransactionLogKey, TransactionLogValue

_NONE: Final = -1


class _TransactionRecordFormat(RecordFormat):
    def __init__(self, level: Callable[[], int]) -> None:
        super().__init__(RecordType(TransactionLogKey, TransactionLogValue, 1, encode_transaction))
        self._level = level

    def encode(self, record: InternalRecord) -> tuple[bytes, bytes | None]:
        return super().encode(record) if self._level() else self.encode_by_schema(record)

    def version_of(self, value: RecordValue, type_: RecordType) -> int:
        assert isinstance(value, TransactionLogValue)
        return super().version_of(value, type_) if self._level() or _needs_version_1(value) else 0


def _needs_version_1(value: TransactionLogValue) -> bool:
    """Clients that go their own way, and two-phase commit, need more than the oldest records carry."""
    return (
        value.client_transaction_version != 0
        or value.next_producer_epoch != _NONE
        or value.next_producer_id != _NONE
        or value.previous_producer_id != _NONE
    )


def transaction_records(level: Callable[[], int]) -> RecordFormat:
    """The records as the level of `transaction.version` wants them, whatever it is at that moment."""
    return _TransactionRecordFormat(level)


TRANSACTION_RECORDS: Final = transaction_records(lambda: 2)

encode = TRANSACTION_RECORDS.encode
decode = TRANSACTION_RECORDS.decode
