"""Transactions during compaction: which records were aborted, and which markers are still needed. As in Kafka.

It is given the batches in the order of the log. Records of an aborted transaction are removed, whatever their keys,
and never supersede others. A marker stays as long as a batch of its transaction does, and for `delete.retention.ms`
after that, so that a consumer that has read the records also reads the marker. The entry of an aborted transaction
stays in the transaction index until its marker is removed.
"""

from collections import deque
from collections.abc import Iterable

from penstock.records.batch import BatchHeader
from penstock.records.control import Marker
from penstock.records.producer import AbortedTransaction


class CleanedTransactions:
    """The completed transactions of a range of offsets.

    With `sees_all` false, damaged segments are skipped, and every marker counts as needed.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction], *, sees_all: bool = True) -> None:
        self._sees_all = sees_all
        self._coming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer: the current transaction
        self._seen: set[int] = set()  # producers with a batch in their current transaction

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction."""
        self._come_to(header)
        if not header.is_transactional:
            return False
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborted

    def end(self, header: BatchHeader, marker: Marker) -> tuple[bool, AbortedTransaction | None]:
        """Process a marker: whether no batch of its transaction is left, and the entry that the index keeps."""
        self._come_to(header)
        is_empty = self._sees_all and header.producer_id not in self._seen
        self._seen.discard(header.producer_id)
        aborted = None if marker.committed else self._aborted.pop(header.producer_id, None)
        return is_empty, None if is_empty else aborted

    def _come_to(self, header: BatchHeader) -> None:
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            aborted = self._coming.popleft()
            self._aborted[aborted.producer_id] = aborted
