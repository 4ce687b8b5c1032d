"""A refresh in a process of its own, which ends as kill -9 ends it: right before or right after a manifest is replaced.

python -m tests.spark.tables.refresh_until_killed FOLDER TABLE before|after NUMBER_OF_THE_MANIFEST
"""

import os
import signal
import sys
from pathlib import Path

from penstock.spark import tables
from penstock.spark.session import spark_session
from penstock.spark.tables import writing
from penstock.spark.tables.manifest import Manifest, replace_manifest


def main(warehouse: str, name: str, when: str, number: int) -> None:
    seen = 0

    def deadly(folder: Path, manifest: Manifest) -> None:
        nonlocal seen
        seen += 1
        if seen == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        replace_manifest(folder, manifest)
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    writing.replace_manifest = deadly
    with spark_session("killed", master="local[1]") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        tables.refresh(spark, tables.open_table(warehouse, name))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
