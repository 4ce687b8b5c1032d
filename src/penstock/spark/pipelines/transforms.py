"""Imports a flow's function by `module:function`, and ships a project's modules to Spark's workers.

The project's directory is on the path; if it is a package itself, its parent directory is, so that modules have only
one name.
"""

import hashlib
import importlib
import io
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import UserError
from penstock.base.settings import unknown_name
from penstock.spark.pipelines.paths import modules_of
from penstock.spark.pipelines.project import Flow, Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES_MAX: Final = 10_000
_BYTES_MAX: Final = 64 << 20


def import_root(project: Project) -> Path:
    """The directory that a project's modules are found in."""
    directory = project.directory.resolve()
    return directory.parent if (directory / "__init__.py").exists() else directory


def load_transform(project: Project, flow: Flow) -> "Callable[[DataFrame], DataFrame]":
    """Import the flow's function; UserError if it cannot be imported, does not exist, or is not callable."""
    root = str(import_root(project))
    if root not in sys.path:
        sys.path.insert(0, root)
    importlib.invalidate_caches()  # the project may have been written after this process started
    module_name, _, name = flow.transform.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(
            f"flow {flow.name}: module {module_name} cannot be imported from {root}: {type(error).__name__}: {error}"
        ) from error
    function: Any = getattr(module, name, None)
    if function is None:
        known = [
            each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")
        ]
        raise UserError(f"flow {flow.name}: {unknown_name(f'function of {module_name}', name, known)}")
    if not callable(function):
        raise UserError(f"flow {flow.name}: {flow.transform} is no function but {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def ship_modules(spark: "SparkSession", project: Project) -> None:
    """Ship the project's modules to Spark's workers, which are other processes, maybe on other machines.

    The archive stays as long as the session: workers fetch it when they start. Its name has a hash of its content,
    since a session rejects another file of the same name.
    """
    folder = modules_of(project)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    content = _pack(project)
    archive = folder / f"{project.name}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    archive.write_bytes(content)
    if _is_remote(spark):
        spark.addArtifacts(str(archive), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(archive))


def _is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _pack(project: Project) -> bytes:
    """The project's Python files as an archive; the same bytes for the same files."""
    root = import_root(project)
    size = 0
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for count, file in enumerate(_modules(project), start=1):
            size += file.stat().st_size
            if count > _FILES_MAX or size > _BYTES_MAX:
                raise UserError(
                    f"{project.directory} holds more Python files than the {_FILES_MAX:,} of {_BYTES_MAX >> 20} MiB "
                    "together that are sent to Spark's workers: is it the right directory?"
                )
            packed.writestr(zipfile.ZipInfo(str(file.relative_to(root))), file.read_bytes())
    return content.getvalue()


def _modules(project: Project) -> Iterator[Path]:
    state = project.state.resolve()
    for folder, folders, files in os.walk(project.directory.resolve()):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith(".") and each != "__pycache__" and Path(folder, each) != state
        )
        yield from (Path(folder, each) for each in sorted(files) if each.endswith(".py"))
