"""What `penstock cluster up` needs besides Penstock: Java, ZooKeeper's jars and kazoo. Errors name all that is missing.

ZooKeeper's jars are looked for in

1. the directory that `--zookeeper-jars` or PENSTOCK_ZOOKEEPER_JARS names: Apache's download, unpacked, or any jars,
2. the directory of `make tools`, in a source tree,
3. the operating system's package,
4. PySpark's jars, if it is installed.
"""

import importlib.util
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from penstock.base.errors import UserError
from penstock.world.java import find_java

T = TypeVar("T")

JARS_VARIABLE: Final = "PENSTOCK_ZOOKEEPER_JARS"

_JAVA_OLDEST: Final = 11
_TOOLS_VARIABLE: Final = "PENSTOCK_TOOLS"
_MACHINE_FOLDERS: Final = (
    Path("/usr/share/java"),
    Path("/usr/share/zookeeper"),
    Path("/usr/lib/zookeeper"),
    Path("/usr/lib/zookeeper/lib"),
)


class Needs(NamedTuple):
    """Java and the class path that ZooKeeper is started with."""

    java: Path
    class_path: str


def find_needs(
    environment: Mapping[str, str],
    *,
    jars: Path | None = None,
    machine_folders: tuple[Path, ...] = _MACHINE_FOLDERS,
) -> Needs:
    """Find all needs; UserError that lists what is missing and how to install it."""
    problems: list[str] = []

    def attempt(find: Callable[[], T]) -> T | None:
        try:
            return find()
        except UserError as error:
            problems.append(str(error))
            return None

    java = attempt(
        lambda: find_java(environment, oldest=_JAVA_OLDEST, needed_by="ZooKeeper, which a cluster runs on,")
    )
    class_path = attempt(lambda: find_zookeeper(environment, jars=jars, machine_folders=machine_folders))
    attempt(_require_kazoo)
    if problems or java is None or class_path is None:
        raise UserError("\n".join(_told(problems)))
    return Needs(java.program, class_path)


def _told(problems: list[str]) -> Iterator[str]:
    if len(problems) == 1:
        yield problems[0]
        return
    yield f"a cluster needs {len(problems)} things that are missing:"
    for problem in problems:
        yield f"  - {problem}"


def _require_kazoo() -> None:
    if importlib.util.find_spec("kazoo") is None:
        raise UserError(
            'the brokers of a cluster need kazoo, ZooKeeper\'s client: pip install "penstock-mq[cluster]" brings it'
        )


def find_zookeeper(
    environment: Mapping[str, str],
    *,
    jars: Path | None = None,
    machine_folders: tuple[Path, ...] = _MACHINE_FOLDERS,
) -> str:
    """The class path of ZooKeeper's server; UserError with the ways to install one."""
    given = jars or (Path(environment[JARS_VARIABLE]) if environment.get(JARS_VARIABLE) else None)
    if given is not None:
        found = _class_path(given) or _class_path(given / "lib")
        if found is None:
            origin = "--zookeeper-jars" if jars is not None else JARS_VARIABLE
            raise UserError(
                f"{origin}: there is no zookeeper-VERSION.jar in {given}, nor in its lib directory"
            )
        return found
    for folder in (*_tools_folders(environment), *machine_folders, *_pyspark_folders()):
        found = _class_path(folder)
        if found is not None:
            return found
    raise UserError(
        "a cluster needs ZooKeeper, which is not found: install the package zookeeper (on Debian and Ubuntu: apt-get "
        "install zookeeper); or unpack Apache's download (apache-zookeeper-VERSION-bin.tar.gz, 20 MB) and name it with "
        "--zookeeper-jars DIR; or `make tools` in Penstock's source tree; or, with all of Spark, "
        'pip install "penstock-mq[spark]"'
    )


def _class_path(folder: Path) -> str | None:
    """The class path of ZooKeeper's server in that folder; None if it is not there."""
    jar = folder / "zookeeper.jar"
    if jar.is_file() and _names_the_others(jar):
        return str(jar)  # the folder has jars of many programs, with conflicting versions
    if jar.is_file() or any(folder.glob("zookeeper-[0-9]*.jar")):
        return f"{folder}/*"
    return None


def _names_the_others(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as file:
            return b"Class-Path:" in file.read("META-INF/MANIFEST.MF")
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def _tools_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The folder of `make tools`. Its pom is written last: without it the jars may be incomplete."""
    given = environment.get(_TOOLS_VARIABLE)
    home = environment.get("HOME")
    folder = Path(given) if given else Path(home) / ".cache" / "penstock" / "tools" if home else None
    if folder is not None and (folder / "zookeeper" / "pom.xml").exists():
        yield folder / "zookeeper" / "libs"


def _pyspark_folders() -> Iterator[Path]:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        yield Path(pyspark.origin).parent / "jars"
