"""For PENSTOCK_INTERPRETED=1: Python runs the source of modules that are also compiled."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

_PREFIX = "penstock."


class SourceFinder(MetaPathFinder):
    """Finds the source of a module of this package; Python itself would prefer the compiled module beside it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not name.startswith(_PREFIX):
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
            if spec is not None and spec.loader is not None:
                return spec
        return None  # a module without Python source, as `records._columns`


def prefer_source() -> None:
    """Import the source of all modules from now on."""
    if not any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceFinder())
