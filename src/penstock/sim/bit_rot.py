"""Which bits of a file may be flipped: those whose damage a checksum or a second copy detects.

Kafka's record batch has no checksum over the base offset and the leader epoch, because the broker sets both after the
producer has computed the CRC. Kafka's brokers and ours serve a flipped bit there as it is, and no client can detect it.
"""

from penstock.base.buffers import Buffer
from penstock.base.errors import PenstockError
from penstock.records.batch import headers

_BASE_OFFSET = range(8)
_LEADER_EPOCH = range(12, 16)


def is_detectable(name: str, content: Buffer, position: int) -> bool:
    """Whether a flipped bit at this position of the file can be detected."""
    return not name.endswith(".log") or not _is_without_checksum(content, position)


def _is_without_checksum(content: Buffer, position: int) -> bool:
    try:
        for start, header in headers(content):
            if position < start + header.size:
                return position - start in _BASE_OFFSET or position - start in _LEADER_EPOCH
    except PenstockError:
        pass  # an earlier flipped bit: readers stop there
    return False
