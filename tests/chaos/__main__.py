"""`make chaos`: the exactly-once run, the hostile one and the cluster's, one after the other.

CHAOS_SECONDS (180) says how long each lasts, CHAOS_SEED which faults there are, CHAOS_ONLY
(`exactly-once`, `hostile`, `cluster`) that it is one of them.
"""

import os
import random
import time
from collections.abc import Callable

from peers.tools import MissingToolError, locate
from tests.chaos import exactly_once
from tests.chaos.cluster import run as cluster
from tests.chaos.hostile import run as hostile

Say = Callable[[str], None]


def main() -> int:
    seconds = float(os.environ.get("CHAOS_SECONDS") or 180)
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(2**32))
    only = os.environ.get("CHAOS_ONLY")
    runs = {"exactly-once": exactly_once.run, "hostile": hostile.run, "cluster": cluster.run}
    if only and only not in runs:
        print(f"CHAOS_ONLY is {only!r}; there are {', '.join(runs)}")
        return 2
    print(f"{seconds:g} seconds each; again with: make chaos CHAOS_SEED={seed}", flush=True)
    failed = []
    for name, run in runs.items():
        if only in (None, "", name) and not _lacks_tools(name):
            print(f"{name}:", flush=True)
            report = run(seconds, seed=seed, say=_say)
            print(report, flush=True)
            failed += [name] if report.faults else []
    print(f"FAILED: {', '.join(failed)}" if failed else "every promise was kept")
    return 1 if failed else 0


def _lacks_tools(name: str) -> bool:
    try:
        for tool in ("zookeeper", "kafka") if name == "cluster" else ():
            locate(tool)
    except MissingToolError as missing:
        print(f"{name} is left out: {missing}")
        return True
    return False


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
