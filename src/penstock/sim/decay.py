"""Where bits may flip: wherever a checksum, or a second copy, could tell.

Kafka's format has no checksum over a batch's base offset and leader epoch, since brokers write both into what
producers have summed up. A bit that flips there is served as it is, by Kafka's brokers and by ours, and no client
can tell.
"""

from penstock.base.buffers import Buffer
from penstock.base.errors import PenstockError
from penstock.records.batch import headers

_BASE_OFFSET = range(8)
_LEADER_EPOCH = range(12, 16)


def can_be_noticed(name: str, content: Buffer, position: int) -> bool:
    """Whether anybody could notice a flipped bit at this position of a file of that name."""
    return not name.endswith(".log") or not _is_bare(content, position)


def _is_bare(content: Buffer, position: int) -> bool:
    try:
        for start, header in headers(content):
            if position < start + header.size:
                return position - start in _BASE_OFFSET or position - start in _LEADER_EPOCH
    except PenstockError:
        pass  # a bit has flipped before, and nobody reads on from there
    return False
