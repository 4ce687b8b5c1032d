"""What can be set for a table, declared once as data."""

from typing import Final

from penstock.base.allowed import Between
from penstock.base.settings import INT_MAX, LONG_MAX, MINUTE_MS, Catalogue, integer, long

BUCKETS = integer(
    "buckets",
    8,
    "Into how many parts, by key, a latest table is divided; a batch rewrites those that it touches. Fixed once "
    "the table is there.",
    allowed=Between(1, 4096),
    fixed=True,
)
SMALL_FILES_MAX = integer(
    "small.files.max",
    32,
    "How many small files an append table may have before they are merged.",
    allowed=Between(1, INT_MAX),
)
SMALL_FILE_BYTES = long(
    "small.file.bytes", 8 << 20, "Files below this size are small.", allowed=Between(1, LONG_MAX)
)
FILE_BYTES = long(
    "file.bytes",
    128 << 20,
    "How large the files are that small ones are merged into.",
    allowed=Between(1, LONG_MAX),
)
RETIRED_KEEP_MS = long(
    "retired.keep.ms",
    10 * MINUTE_MS,
    "How long files that were replaced are kept, for queries that began before.",
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
    "How many offsets one batch of a refresh takes; 0 means all that there are.",
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
