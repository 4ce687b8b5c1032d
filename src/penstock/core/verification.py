"""Verification: whether the transaction coordinator has said that a producer may begin a transaction here.

Before the first batch of a transaction is taken, the partition's leader asks the coordinator; in between, a marker
may end the very transaction that was asked about. So whoever asks takes a `Verification` first, and the batch is
taken only if that one is still held: a marker, or the transaction's first batch, takes it away.

An entry also knows the lowest sequence that was asked for. While the answers are awaited, requests may overtake one
another; taking a later batch first would leave the earlier ones out of order for good.
"""


class Verification:
    """One question to the coordinator; compared by identity."""

    __slots__ = ("bumps_epochs", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, *, bumps_epochs: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        # The client has a new epoch for every transaction: the first batch of one has sequence 0.
        self.bumps_epochs = bumps_epochs


class Verifications:
    """The questions under way for one partition, one per producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, *, epoch: int, sequence: int, bumps_epochs: bool) -> Verification:
        """Take what `holds` asks for later; requests of one producer and epoch share it."""
        entry = self._by_producer.get(producer_id)
        if entry is None or epoch > entry.epoch:
            entry = self._by_producer[producer_id] = Verification(epoch, sequence, bumps_epochs=bumps_epochs)
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, sequence)
        return entry

    def holds(self, producer_id: int, verification: Verification | None) -> bool:
        """Whether nothing has happened since the question was asked."""
        return verification is not None and self._by_producer.get(producer_id) is verification

    def of(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def end(self, producer_id: int) -> None:
        """The transaction has begun, or a marker has come: what was asked before counts no more."""
        self._by_producer.pop(producer_id, None)

    def release(self, producer_id: int, verification: Verification) -> None:
        """The coordinator said no: anybody can ask in the name of any producer, and nothing must stay of it."""
        if self.holds(producer_id, verification):
            self.end(producer_id)

    def forget(self, producer_ids: list[int]) -> None:
        """These producers are gone."""
        for producer_id in producer_ids:
            self._by_producer.pop(producer_id, None)
