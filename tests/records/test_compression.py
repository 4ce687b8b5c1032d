"""The codecs: other people's bytes, ours in other people's hands, and what may not be inflated."""

import gzip
import struct
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.batch import crc_holds, read_header
from penstock.records.compression import Codec, compress, decompress
from penstock.records.errors import CorruptBatchError, DecompressionLimitError
from penstock.records.record import Record, read_records

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b"line %d of a text that repeats itself\n" % number for number in range(5_000))
WORDS = b" ".join(b"%d" % (number**3 % 9973) for number in range(10_000))

# Written by Apache Kafka 4.3.1 itself, out of its own log: three records, recompressed for topics whose
# compression.type names the codec.
FROM_KAFKA = {
    Codec.GZIP: "00000000000000000000006d0000000002d5b08e740001000000020000018bcfe568000000018bcfe56802ffffffffffff"
    "ffffffffffffffff000000031f8b08000000000000ff9361606060c936e0294bcc294d35605061606262c93684700d999832982a64"
    "18585858b28d2042460c0007856f1c31000000",
    Codec.SNAPPY: "0000000000000000000000750000000002da1da61b0002000000020000018bcfe568000000018bcfe56802ffffffffffff"
    "ffffffffffffffff0000000382534e415050590000000001000000010000003031541c000000046b300c76616c7565300024000202"
    "046b31090f503102026802781c000404046b320c76616c75653200",
    Codec.LZ4: "0000000000000000000000710000000002ce9964ba0003000000020000018bcfe568000000018bcfe56802ffffffffffff"
    "ffffffffffffffff0000000304224d18604082310000801c000000046b300c76616c7565300024000202046b310c76616c75653102"
    "026802781c000404046b320c76616c7565320000000000",
    Codec.ZSTD: "00000000000000000000006e0000000002066d639b0004000000020000018bcfe568000000018bcfe56802ffffffffffff"
    "ffffffffffffffff0000000328b52ffd00588801001c000000046b300c76616c7565300024000202046b310c76616c756531020268"
    "02781c000404046b320c76616c75653200010000",
}


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_batch_that_kafka_compressed_is_read(codec):
    batch = bytes.fromhex(FROM_KAFKA[codec])
    header = read_header(batch)
    assert header.codec is codec
    assert crc_holds(batch, 0, header)
    assert list(read_records(batch, limit=100)) == [
        Record(0, 1_700_000_000_000, b"k0", b"value0"),
        Record(1, 1_700_000_000_001, b"k1", b"value1", (("h", b"x"),)),
        Record(2, 1_700_000_000_002, b"k2", b"value2"),
    ]


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=200), repeats=st.integers(1, 2_000))
def test_what_was_compressed_comes_back(codec, data, repeats):
    data *= repeats
    assert decompress(codec, compress(codec, data), limit=len(data)) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(codec, kind):
    compressed = kind(b"--" + compress(codec, kind(TEXT)))[2:]
    assert decompress(codec, compressed, limit=len(TEXT)) == TEXT


def test_others_read_what_we_write():
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(Codec.LZ4, TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_snappy_is_written_in_xerial_frames_of_32_kib():
    compressed = compress(Codec.SNAPPY, TEXT)
    assert compressed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, blocks = 16, []
    while position < len(compressed):
        (size,) = struct.unpack_from(">i", compressed, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(compressed[position + 4 : position + 4 + size])))
        position += 4 + size
    assert b"".join(blocks) == TEXT
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}


def test_lz4_is_written_in_independent_blocks_because_java_reads_no_others():
    description = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not description["block_linked"]
    assert description["block_size"] == 64 * 1024
    assert not description["content_checksum"]


def zstd_without_content_size(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (Codec.GZIP, gzip.compress(TEXT)),
        (Codec.GZIP, gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
        (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))),
        (Codec.LZ4, lz4.frame.compress(TEXT, store_size=True)),
        (Codec.LZ4, lz4.frame.compress(TEXT, store_size=False, block_linked=True, content_checksum=True)),
        (Codec.LZ4, lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_checksum=True)),
        (Codec.LZ4, lz4.frame.compress(TEXT[:99]) + lz4.frame.compress(TEXT[99:])),
        (Codec.ZSTD, zstandard.compress(TEXT)),
        (Codec.ZSTD, zstd_without_content_size(TEXT)),
        (Codec.ZSTD, zstandard.compress(TEXT[:99]) + zstd_without_content_size(TEXT[99:])),
    ],
)
def test_all_that_other_clients_write_is_read(codec, compressed):
    assert decompress(codec, compressed, limit=len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, [-1, 1, 9]), (Codec.LZ4, [1, 9, 12, 17]), (Codec.ZSTD, [-131072, -1, 1, 3, 19])],
)
def test_every_level_that_kafkas_settings_allow_works(codec, levels):
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), limit=len(TEXT)) == TEXT


def test_a_higher_level_makes_it_smaller():
    for codec, low, high in [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -50, 19)]:
        assert len(compress(codec, WORDS, high)) < len(compress(codec, WORDS, low)), codec


def test_lz4_level_9_is_the_fast_method_as_in_kafka_whose_default_it_is():
    assert compress(Codec.LZ4, WORDS, 9) == compress(Codec.LZ4, WORDS)
    assert len(compress(Codec.LZ4, WORDS, 8)) < len(compress(Codec.LZ4, WORDS))


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec):
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, limit=len(TEXT)) == TEXT
    with pytest.raises(DecompressionLimitError):
        decompress(codec, compressed, limit=len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_damaged_data_is_corrupt_not_too_large(codec):
    compressed = compress(codec, TEXT)
    half = compressed[: len(compressed) // 2]
    for damaged in (compressed[:-1], half, b"", bytes(40), compressed + b"xxxxxx"):
        with pytest.raises(CorruptBatchError) as caught:
            decompress(codec, damaged, limit=len(TEXT))
        assert caught.type is CorruptBatchError, damaged[:40]


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_a_snappy_block_of_impossible_size_is_damage(size):
    framed = compress(Codec.SNAPPY, b"")
    with pytest.raises(CorruptBatchError, match="snappy block"):
        decompress(Codec.SNAPPY, framed + struct.pack(">i", size) + b"abc", limit=1_000)


def test_a_snappy_block_that_announces_more_than_the_limit_is_not_even_tried():
    four_gib = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    tracemalloc.start()
    with pytest.raises(DecompressionLimitError, match="4294967295 bytes"):
        decompress(Codec.SNAPPY, four_gib, limit=1_000)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


BOMBS = r"""
import resource, struct, zlib
import cramjam, lz4.frame, zstandard
from penstock.records.compression import Codec, decompress
from penstock.records.errors import DecompressionLimitError

MIB = 2**20
zeros = bytes(MIB)

def stream(compressor, mebibytes):
    start = getattr(compressor, "begin", bytes)()
    return start + b"".join(compressor.compress(zeros) for _ in range(mebibytes)) + compressor.flush()

gzip_64 = stream(zlib.compressobj(1, zlib.DEFLATED, 31), 64)
lz4_64 = stream(lz4.frame.LZ4FrameCompressor(), 64)
zstd_1024 = stream(zstandard.ZstdCompressor(level=1).compressobj(), 1024)
block = bytes(cramjam.snappy.compress_raw(zeros))
xerial_1024 = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 1024
bombs = [(Codec.GZIP, gzip_64), (Codec.GZIP, gzip_64 * 16), (Codec.SNAPPY, xerial_1024),
         (Codec.LZ4, lz4_64), (Codec.LZ4, lz4_64 * 16), (Codec.ZSTD, zstd_1024), (Codec.ZSTD, zstd_1024 * 2)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for codec, bomb in bombs:
    try:
        decompress(codec, bomb, limit=8 * MIB)
    except DecompressionLimitError:
        continue
    raise SystemExit(f"{codec} went off")
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown * (1 if __import__("sys").platform == "darwin" else 1024) // MIB)
"""


def test_a_bomb_of_a_gibibyte_costs_no_more_memory_than_the_limit_allows():
    # In a process of its own: the peak of this one was set by other tests.
    finished = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr or finished.stdout
    assert int(finished.stdout) <= 3 * 8
