"""The settings of a table, declared once as data."""

from typing import Final

from penstock.base.allowed_values import Between
from penstock.base.settings import INT_MAX, LONG_MAX, MINUTE_MS, Catalogue, integer, long

BUCKETS = integer(
    "buckets",
    8,
    "The number of buckets, by key, of a latest table; a batch rewrites those that it touches. Fixed once the table "
    "is created.",
    allowed=Between(1, 4096),
    fixed=True,
)
SMALL_FILES_MAX = integer(
    "small.files.max",
    32,
    "The most small files of an append table before they are merged.",
    allowed=Between(1, INT_MAX),
)
SMALL_FILE_BYTES = long(
    "small.file.bytes", 8 << 20, "Files below this size are small.", allowed=Between(1, LONG_MAX)
)
FILE_BYTES = long(
    "file.bytes",
    128 << 20,
    "The size of merged files.",
    allowed=Between(1, LONG_MAX),
)
RETIRED_KEEP_MS = long(
    "retired.keep.ms",
    10 * MINUTE_MS,
    "How long replaced files are kept, for queries that began before.",
    allowed=Between(0, LONG_MAX),
)
WRITER_WAIT_MS = long(
    "writer.wait.ms",
    10 * MINUTE_MS,
    "How long a writer waits for another one of the same table.",
    allowed=Between(0, LONG_MAX),
)
BATCH_OFFSETS_MAX = long(
    "batch.offsets.max",
    1_000_000,
    "The most offsets in one batch of a refresh; 0: no limit.",
    allowed=Between(0, LONG_MAX),
)

TABLE_SETTINGS: Final = Catalogue(
    "table",
    (
        BUCKETS,
        SMALL_FILES_MAX,
        SMALL_FILE_BYTES,
        FILE_BYTES,
        RETIRED_KEEP_MS,
        WRITER_WAIT_MS,
        BATCH_OFFSETS_MAX,
    ),
)
