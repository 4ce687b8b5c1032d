"""`penstock` on a machine whose clock is wrong: `python fast_clock.py SECONDS_AHEAD serve …` in a process."""

import sys
import time

from penstock.cli.main import main


def set_clock_ahead(seconds: int) -> None:
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + seconds * 10**9


if __name__ == "__main__":
    set_clock_ahead(int(sys.argv[1]))
    raise SystemExit(main(sys.argv[2:]))
