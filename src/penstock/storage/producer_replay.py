"""Rebuilds producer state and transaction indexes from the batches of a log."""

from penstock.base.buffers import Buffer
from penstock.records.batch import BatchHeader
from penstock.records.control import read_marker
from penstock.records.errors import CorruptBatchError
from penstock.storage.errors import CorruptionError
from penstock.storage.producer_snapshots import ProducerMemory
from penstock.storage.segment import Segment


def replay_segment(segment: Segment, producers: ProducerMemory, *, from_offset: int) -> None:
    """Replay every batch at or behind `from_offset`, skipping damage. May block.

    CorruptionError if batches are damaged that were not known to be.
    """
    segment.transaction_index.truncate_to(from_offset)
    for position, header in segment.undamaged_headers():
        if header.has_producer and header.base_offset >= from_offset:
            replay_found(segment, position, header, producers)


def replay_found(segment: Segment, position: int, header: BatchHeader, producers: ProducerMemory) -> None:
    """Replay one batch of a segment's file. May block."""
    if header.is_control:
        replay_control(segment, segment.file.read(position, header.size), header, producers)
    else:
        producers.replay(header)


def replay_control(segment: Segment, batch: Buffer, header: BatchHeader, producers: ProducerMemory) -> None:
    """Replay a control batch; an abort marker is added to its segment's transaction index."""
    try:
        marker = read_marker(batch, header)
    except CorruptBatchError as error:
        message = f"{segment.file.path}: the marker at offset {header.base_offset} cannot be read: {error}"
        raise CorruptionError(message) from error
    if marker is not None:
        aborted = producers.replay_marker(header, marker)
        if aborted is not None:
            segment.transaction_index.add(aborted)
