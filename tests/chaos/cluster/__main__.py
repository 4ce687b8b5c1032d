"""`python -m tests.chaos.cluster --seconds N --seed S`: faults of a cluster for so long, and a verdict."""

import argparse
import random
import time
from pathlib import Path

from tests.chaos.cluster.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=None, help="which faults, in which order")
    parser.add_argument("--only", action="append", default=[], metavar="KIND", help="this fault, once")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="where to keep what was said and written")
    parser.add_argument("--proxy", action="store_true", help="cut by the proxy, even where one is root")
    parser.add_argument("--majority", action="store_true", help="of replicas counts, not the in-sync sets")
    arguments = parser.parse_args()
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    started_s = time.monotonic()
    print(f"{arguments.seconds:g} seconds; again with: --seed {seed}", flush=True)
    report = run(
        arguments.seconds,
        seed=seed,
        kinds=arguments.only,
        logs=arguments.logs,
        by_proxy=arguments.proxy,
        quorum="majority" if arguments.majority else "all",
        say=lambda words: print(f"{time.monotonic() - started_s:7.1f}  {words}", flush=True),
    )
    print(report)
    print("FAILED" if report.faults else "nothing lost, doubled, torn or moved")
    return 1 if report.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
