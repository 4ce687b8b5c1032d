"""What pyproject.toml cannot say: how the modules that it lists are compiled, and what the wheel is called then.

`tool.penstock.compiled` lists the modules of the hot path. mypyc compiles them from the source that lies beside them
(docs/compiled-modules.md). All of them are compiled, or none: without mypy or a compiler the installation goes on, and
Python runs the source. PENSTOCK_COMPILE=0 leaves them out, PENSTOCK_COMPILE=1 fails if they cannot be compiled. An
editable installation never has them, since they would hide every later change of the source.
"""

import os
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError, LinkError

COLUMNS = "penstock.records._columns"
MODULES = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["penstock"]["compiled"]
WISH = os.environ.get("PENSTOCK_COMPILE", "")
BUILD_ERRORS = (BaseError, CompileError, LinkError)


class CannotCompileError(Exception):
    """The listed modules cannot be compiled here."""


def compiled_modules(build_temp):
    """The extension modules that mypyc makes of the listed modules."""
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        raise CannotCompileError("mypy, which brings mypyc, is not installed") from error
    Path(build_temp).mkdir(parents=True, exist_ok=True)
    paths = [f"src/{name.replace('.', '/')}.py" for name in MODULES]
    options = ["--config-file", "pyproject.toml", "--cache-dir", str(Path(build_temp, "mypy"))]
    try:
        return mypycify(
            [*options, *paths],
            opt_level="2",
            debug_level="0",
            target_dir=build_temp,
            group_name="penstock",
            multi_file=True,
        )
    except SystemExit as error:  # mypycify ends the process after it has printed what it found
        raise CannotCompileError("mypyc rejects the source") from error


class Extensions(build_ext):
    """Builds the Arrow columns, which are optional, and the listed modules."""

    has_modules = False

    def run(self):
        super().run()
        if self.editable_mode or WISH == "0":
            return
        try:
            self._build_modules()
        except (CannotCompileError, *BUILD_ERRORS) as error:
            if WISH == "1":
                raise
            self.warn(
                f"the modules of tool.penstock.compiled are not compiled, Python runs their source: {error}"
            )

    def _build_modules(self):
        optional, modules = self.distribution.ext_modules, compiled_modules(self.build_temp)
        self.distribution.ext_modules = modules
        builder = build_ext(self.distribution)
        builder.build_lib, builder.build_temp = self.build_lib, self.build_temp
        builder.ensure_finalized()
        self.distribution.ext_modules = optional
        try:
            builder.run()
        except BUILD_ERRORS:
            for module in modules:
                Path(builder.get_ext_fullpath(module.name)).unlink(missing_ok=True)
            raise
        self.has_modules = True


class Wheel(bdist_wheel):
    """With compiled modules it is for one version of Python, with the columns alone for every one from 3.11 on."""

    def get_tag(self):
        built = self.get_finalized_command("build_ext")
        if built.has_modules:
            self.py_limited_api = False
        elif not Path(built.get_ext_fullpath(COLUMNS)).exists():
            return "py3", "none", "any"
        return super().get_tag()


setup(cmdclass={"build_ext": Extensions, "bdist_wheel": Wheel})
