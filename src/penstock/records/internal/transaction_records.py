"""The records of __transaction_state (type 0): `encode` and `decode`.

Values are written in version 1, which carries what transactions of version 2 need, and read in both.
"""

from typing import Final

from penstock.records.internal.often_written import encode_transaction
from penstock.records.internal.record import RecordFormat, RecordType
from penstock.records.internal.transaction_shapes import TransactionLogKey, TransactionLogValue

TRANSACTION_RECORDS: Final = RecordFormat(
    RecordType(TransactionLogKey, TransactionLogValue, 1, encode_transaction)
)

encode = TRANSACTION_RECORDS.encode
decode = TRANSACTION_RECORDS.decode
