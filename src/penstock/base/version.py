"""The version of this program, and whether its hot path is compiled."""

VERSION = "0.1.0"

# A module of `tool.penstock.compiled`, which are all compiled, or none.
_COMPILED_IF_ANY = "penstock.base.buffers"


def is_compiled() -> bool:
    """Whether the modules of the hot path are compiled (docs/compiled-modules.md), without loading one."""
    from importlib.machinery import EXTENSION_SUFFIXES
    from importlib.util import find_spec

    spec = find_spec(_COMPILED_IF_ANY)
    return spec is not None and spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES))


def describe_version() -> str:
    """The version as `penstock --version` prints it."""
    return f"{VERSION} ({'compiled' if is_compiled() else 'interpreted'})"
