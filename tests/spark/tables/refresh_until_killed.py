"""Refreshes of two tables in one process, which ends as kill -9 ends it when each has put its first batch in: the
second batch of one is written and in no manifest, that of the other is in its manifest, and Spark does not know.

python -m tests.spark.tables.refresh_until_killed FOLDER TABLE_KILLED_BEFORE TABLE_KILLED_AFTER
"""

import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import NoReturn

from penstock.spark import tables
from penstock.spark.session import spark_session
from penstock.spark.tables import writing
from penstock.spark.tables.manifest import Manifest, replace_manifest


def main(warehouse: str, before: str, after: str) -> None:
    replaced: Counter[str] = Counter()
    both_there = threading.Barrier(2)
    one_is_in = threading.Event()

    def deadly(folder: Path, manifest: Manifest) -> None:
        replaced[folder.name] += 1
        is_second = replaced[folder.name] == 2
        if is_second and folder.name == before:
            _die(both_there)
        replace_manifest(folder, manifest)
        one_is_in.set()
        if is_second and folder.name == after:
            _die(both_there)

    writing.replace_manifest = deadly
    # Tasks are tried again as on a cluster: a Python worker that is late on a busy machine is not looked at here.
    with spark_session("killed", master="local[2,4]") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        refreshes = [
            threading.Thread(
                target=lambda name=name: tables.refresh(spark, tables.open_table(warehouse, name))
            )
            for name in (before, after)
        ]
        first, second = refreshes
        first.start()
        # Two queries that begin at one moment may tear a map that Spark 4.3 completes while it plans the first and
        # serialises the second: all attempts of a task then fail with an OptionalDataException.
        while first.is_alive() and not one_is_in.wait(0.1):
            pass
        second.start()
        for each in refreshes:
            each.join()


def _die(both_there: threading.Barrier) -> NoReturn:
    both_there.wait()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


if __name__ == "__main__":
    main(*sys.argv[1:])
