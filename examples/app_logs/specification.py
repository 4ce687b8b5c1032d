"""Writes `spark-pipeline.yml`, which says what the declarative pipeline is and where it keeps its checkpoints.

    cd examples && python -m app_logs.specification       # writes it beside declarative.py

Spark wants the place of checkpoints as an absolute address, so the file cannot come with the example: two people on one
machine would share a place.
"""

import argparse
from pathlib import Path
from typing import Final

FILE_NAME: Final = "spark-pipeline.yml"
STORAGE: Final = "pipeline-storage"

_TEXT: Final = """\
# Written by `python -m app_logs.specification`; see README.md.
name: app_logs
storage: {storage}
libraries:
  - glob:
      include: declarative.py
configuration:
  spark.sql.shuffle.partitions: "2"
  spark.sql.session.timeZone: UTC
  spark.sql.streaming.stateStore.providerClass: org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
"""


def write_specification(directory: Path) -> Path:
    """The specification of a pipeline whose `declarative.py` is in the directory, and which keeps everything there."""
    file = directory / FILE_NAME
    file.write_text(_TEXT.format(storage=(directory.resolve() / STORAGE).as_uri()), encoding="utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(prog="app_logs.specification", description="Writes spark-pipeline.yml.")
    here = Path(__file__).parent
    parser.add_argument("directory", type=Path, nargs="?", default=here, help="where declarative.py is")
    print(f"wrote {write_specification(parser.parse_args().directory)}")


if __name__ == "__main__":
    main()
