"""`spark-pipelines run` of the example's declarative pipeline, in a directory of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "app_logs"
# On disk: else a second run would not know the first one's tables.
CATALOGUE = "spark.sql.catalogImplementation=hive"
TIMEOUT_S = 600


def make_pipeline(directory: Path) -> Path:
    """A directory with the example's definitions and a specification of its own."""
    from app_logs.specification import write_specification

    directory.mkdir()
    (directory / "declarative.py").symlink_to(EXAMPLE / "declarative.py")
    write_specification(directory)
    return directory


def run_pipeline(directory: Path, servers: str, *words: str) -> None:
    finished = subprocess.run(
        [str(Path(sys.executable).parent / "spark-pipelines"), "run", "--conf", CATALOGUE, *words],
        cwd=directory,
        env={
            **os.environ,
            "APP_LOGS_BOOTSTRAP_SERVERS": servers,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-6000:]
