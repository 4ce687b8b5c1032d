"""Transaction verification (KIP-890): whether the transaction coordinator has confirmed that a producer may write here.

Before the first batch of a transaction is appended, the partition's leader asks the coordinator. Meanwhile a marker may
end the very transaction that is being verified. So the request takes a `Verification` before it asks, and the batch is
appended only if the verification is still valid: a marker, or the transaction's first batch, ends it.

A verification also has the lowest sequence of the batches that wait for it. Requests may overtake one another while
they wait; if a later batch were appended first, the earlier ones would be rejected as out of order.
"""


class Verification:
    """One verification in progress; compared by identity."""

    __slots__ = ("bumps_epochs", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, *, bumps_epochs: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        # The client bumps its epoch with every transaction: the first batch of one has sequence 0.
        self.bumps_epochs = bumps_epochs


class Verifications:
    """The verifications in progress for one partition, one per producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, *, epoch: int, sequence: int, bumps_epochs: bool) -> Verification:
        """Start a verification, to be checked by `holds`; requests of one producer and epoch share it."""
        entry = self._by_producer.get(producer_id)
        if entry is None or epoch > entry.epoch:
            entry = self._by_producer[producer_id] = Verification(epoch, sequence, bumps_epochs=bumps_epochs)
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, sequence)
        return entry

    def holds(self, producer_id: int, verification: Verification | None) -> bool:
        """Whether the verification is still valid."""
        return verification is not None and self._by_producer.get(producer_id) is verification

    def of(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def end(self, producer_id: int) -> None:
        """The transaction has begun, or a marker was appended: the verification is no longer valid."""
        self._by_producer.pop(producer_id, None)

    def release(self, producer_id: int, verification: Verification) -> None:
        """The coordinator rejected it: any client can name any producer id, and no state must remain of that."""
        if self.holds(producer_id, verification):
            self.end(producer_id)

    def forget(self, producer_ids: list[int]) -> None:
        """These producers expired."""
        for producer_id in producer_ids:
            self._by_producer.pop(producer_id, None)
