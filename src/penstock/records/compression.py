"""The five codecs of a record batch, and how each is kept from inflating without bound.

Written: gzip; snappy in the Xerial framing the Java client reads; lz4 frames with independent 64 KiB blocks
(the only kind the Java client accepts); zstd. Read: all that clients send, which adds bare snappy
(librdkafka), linked lz4 blocks, frames with and without content size, and several gzip, lz4 or zstd frames in
a row.

Decompression goes into a buffer that starts at a few times the input's size and grows up to `limit`: a bomb
costs `limit` bytes and the time to fill them, whatever it would have become.

One library does for all. 64 KiB of JSON, compress/decompress in µs: cramjam lz4 149/30, snappy 113/44, zstd
297/68. The lz4 package (143/18) and zstandard (268/58) gain little and weigh 30 MB: the core does without.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam

from penstock.base.buffers import Buffer
from penstock.records.errors import CorruptBatchError, DecompressionLimitError


class Codec(IntEnum):
    """How a batch's records are compressed: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` under `codec`; `level` is Kafka's `compression.<codec>.level` (none for snappy)."""
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Codec, data: Buffer, *, limit: int) -> Buffer:
    """Decompress `data`; DecompressionLimitError above `limit` bytes. Without a codec, `data` itself is returned."""
    return _DECOMPRESSORS[codec](data, limit)


def _as_it_is(data: Buffer, limit: int) -> Buffer:
    _require_within(len(data), limit)
    return data


def _require_within(size: int, limit: int) -> None:
    if size > limit:
        raise DecompressionLimitError(f"the records take {size} bytes uncompressed; the limit is {limit}")


# -- gzip, lz4, zstd: frames that say nothing certain about the size of what they hold -----------------------

_GZIP_WINDOW_BITS = 31  # a 32 KiB window (15), wrapped as gzip (+ 16)
_GZIP_LEVEL_DEFAULT = -1
_LZ4_LEVEL_DEFAULT = 9  # in Kafka this number means "the fast method"; every other one is high compression
_LZ4_LEVEL_FAST = 1
_ZSTD_LEVEL_DEFAULT = 3

_SMALLEST_GUESS = 4096
_GROWTH = 4

# How cramjam says that the output buffer is full; every other message means that the input is bad.
_OUTPUT_FULL = "failed to write whole buffer"


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, _GZIP_LEVEL_DEFAULT if level is None else level, _GZIP_WINDOW_BITS)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    if level is None or level == _LZ4_LEVEL_DEFAULT:
        level = _LZ4_LEVEL_FAST
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(bytes(data))
    return bytes(frame.finish())


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL_DEFAULT if level is None else level))


def _decompress_frames(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int
) -> Buffer:
    room = min(limit, max(_SMALLEST_GUESS, _GROWTH * len(data)))
    while True:
        output = bytearray(room)
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptBatchError(f"the compressed records are damaged: {error}") from error
            if room == limit:
                raise DecompressionLimitError(
                    f"the records take more than the limit of {limit} bytes uncompressed"
                ) from error
            room = min(limit, room * _GROWTH)
        else:
            return memoryview(output)[:size]


# -- snappy: blocks that announce their size, usually in Xerial's framing ------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest version that can read it
_XERIAL_BLOCK_SIZE = 32 * 1024
_INT32 = struct.Struct(">i")


def _compress_snappy(data: Buffer, _level: int | None) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    position = len(_XERIAL_HEADER)
    parts: list[bytes] = []
    room = limit
    while position < len(view):
        block_start = position + _INT32.size
        if block_start > len(view):
            raise CorruptBatchError("the snappy records end inside a block's size")
        (size,) = _INT32.unpack_from(view, position)
        position = block_start + size
        if size <= 0 or position > len(view):
            raise CorruptBatchError(f"a snappy block of {size} bytes does not fit into its batch")
        part = _decompress_snappy_block(view[block_start:position], room)
        room -= len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        _require_within(cramjam.snappy.decompress_raw_len(block), limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"the snappy records are damaged: {error}") from error


_COMPRESSORS: dict[Codec, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: lambda data, _level: bytes(data),
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: dict[Codec, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _as_it_is,
    Codec.GZIP: lambda data, limit: _decompress_frames(cramjam.gzip.decompress_into, data, limit),
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: lambda data, limit: _decompress_frames(cramjam.lz4.decompress_into, data, limit),
    Codec.ZSTD: lambda data, limit: _decompress_frames(cramjam.zstd.decompress_into, data, limit),
}
