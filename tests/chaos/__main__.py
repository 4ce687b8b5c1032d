"""`make chaos`: the exactly-once run for some minutes. CHAOS_SECONDS (180) says how long, CHAOS_SEED which kills."""

import os
import random

from tests.chaos import exactly_once


def main() -> int:
    seconds = float(os.environ.get("CHAOS_SECONDS") or 180)
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(2**32))
    print(f"{seconds:g} seconds; again with: make chaos CHAOS_SEED={seed}", flush=True)
    report = exactly_once.run(seconds, seed=seed, say=lambda words: print(words, flush=True))
    print(report)
    print("FAILED" if report.faults else "each record exactly once")
    return 1 if report.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
