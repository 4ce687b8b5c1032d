"""How long it takes to get N files' new bytes onto the device: per-file fdatasync, syncfs, one shared journal.

Each round appends 16 KiB to every one of N files (or N times to one journal) and then syncs. The table gives the
median time of the sync alone, in milliseconds, and of the appends before it. Linux only.

    PYTHONPATH=src python bench/sync.py [--directory DIR] [--files 1,10,100] [--rounds 3]
"""

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock.world.real_sync import sync_file_system

BATCH = os.urandom(16_384)
THREADS = (1, 4, 8)


@dataclass(frozen=True)
class Figures:
    append_ms: float
    sync_ms: float


def measure(*, append: Callable[[], None], sync: Callable[[], None], rounds: int) -> Figures:
    append_ms, sync_ms = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        append()
        appended = time.perf_counter()
        sync()
        synced = time.perf_counter()
        append_ms.append((appended - started) * 1000)
        sync_ms.append((synced - appended) * 1000)
    return Figures(append_ms=statistics.median(append_ms), sync_ms=statistics.median(sync_ms))


def open_files(directory: str, count: int) -> list[int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    descriptors = [os.open(os.path.join(directory, f"{number}.log"), flags) for number in range(count)]
    for descriptor in descriptors:  # a file's first blocks cost more than its later ones
        os.write(descriptor, BATCH)
    sync_file_system(directory)
    return descriptors


def sync_each(descriptors: Sequence[int], pool: ThreadPoolExecutor, threads: int) -> None:
    def sync_share(share: Sequence[int]) -> None:
        for descriptor in share:
            os.fdatasync(descriptor)

    for done in [pool.submit(sync_share, descriptors[first::threads]) for first in range(threads)]:
        done.result()


def measure_files(directory: str, *, count: int, rounds: int) -> dict[str, Figures]:
    descriptors = open_files(directory, count)
    figures: dict[str, Figures] = {}

    def append() -> None:
        for descriptor in descriptors:
            os.write(descriptor, BATCH)

    try:
        for threads in THREADS:
            with ThreadPoolExecutor(threads) as pool:
                sync = lambda pool=pool, threads=threads: sync_each(descriptors, pool, threads)  # noqa: E731
                figures[f"fdatasync, {threads} threads"] = measure(append=append, sync=sync, rounds=rounds)
        figures["syncfs"] = measure(append=append, sync=lambda: sync_file_system(directory), rounds=rounds)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return figures


def measure_journal(directory: str, *, count: int, rounds: int) -> Figures:
    (journal,) = open_files(directory, 1)

    def append() -> None:
        left = count
        while left:
            batches = min(left, 64)
            os.writev(journal, [BATCH] * batches)
            left -= batches

    try:
        return measure(append=append, sync=lambda: os.fdatasync(journal), rounds=rounds)
    finally:
        os.close(journal)


def measure_all(directory: str, *, counts: Sequence[int], rounds: int) -> dict[int, dict[str, Figures]]:
    results = {}
    for count in counts:
        figures: dict[str, Figures] = {}
        for name, run in (("files", measure_files), ("journal", measure_journal)):
            scratch = tempfile.mkdtemp(prefix="penstock-sync-", dir=directory)
            try:
                found = run(scratch, count=count, rounds=rounds)
                figures.update(found if isinstance(found, dict) else {name: found})
            finally:
                shutil.rmtree(scratch)
                sync_file_system(directory)
        results[count] = figures
    return results


def table(results: dict[int, dict[str, Figures]]) -> str:
    ways = list(next(iter(results.values())))
    lines = ["| files | " + " | ".join(ways) + " |", "|---:|" + "---:|" * len(ways)]
    for count, figures in results.items():
        cells = [f"{figures[way].sync_ms:.1f} (+{figures[way].append_ms:.1f})" for way in ways]
        lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", default=tempfile.gettempdir(), help="where to write, and clean up again"
    )
    parser.add_argument("--files", default="1,10,100,1000,10000", help="how many files, as a list")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.files.split(",")]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("sync in ms (+ appends before it in ms), median per round")
    print(table(measure_all(arguments.directory, counts=counts, rounds=arguments.rounds)))


if __name__ == "__main__":
    main()
