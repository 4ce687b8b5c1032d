"""The base of the reader and writer generators: lines of source, names, and groups of fixed-size fields.

Fixed-size values that follow each other on the wire make a *group* and cost one call of the struct module.
The length of a string or an array belongs to the group before it: a group ends where sizes start to vary.
"""

from struct import Struct as Packed
from typing import Any

from penstock.schema.words import Field, FieldKind, Struct


class Emitter:
    """Source of one function for one message and version, line by line."""

    def __init__(self, *, name: str, version: int, flexible: bool) -> None:
        self.name = name
        self.version = version
        self.flexible = flexible
        self.scope: dict[str, Any] = {}
        self.group: list[tuple[str, str]] = []  # (struct letter, target or value)
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def block(self, head: str) -> "Emitter":
        """Opens an indented block, to be used in a `with` statement."""
        self.line(head)
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A new local name."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, name: str, value: object) -> str:
        self.scope[name] = value
        return name

    def packed(self, codes: list[str], method: str) -> tuple[str, int]:
        """The name of a bound method of the struct with these letters, and the struct's size."""
        letters = "".join(codes)
        layout = Packed(">" + letters)
        return self.constant(f"{method}_{letters.replace('?', 't')}", getattr(layout, method)), layout.size

    def compile(self, signature: str) -> Any:
        source = "\n".join([f"def {signature}:", *self._lines, ""])
        exec(
            compile(source, f"<{self.name} v{self.version} {signature.partition('(')[0]}>", "exec"),
            self.scope,
        )
        return self.scope[signature.partition("(")[0]]

    def where(self, shape: type[Struct], name: str) -> str:
        """The name of a field in error messages, as source."""
        owner = shape.__name__ if shape.__name__ == self.name else f"{self.name} {shape.__name__}"
        return repr(f"{owner}.{name}")


def size_min(
    shape: FieldKind | type[Struct], *, is_array: bool, nullable: bool, version: int, flexible: bool
) -> int:
    """The fewest bytes that a value of this type takes: it bounds the count that a peer may announce."""
    if is_array:
        return 1 if flexible else 4
    if isinstance(shape, FieldKind):
        if shape.code:
            return shape.size
        return 1 if flexible else (2 if shape.name == "string" else 4)
    if nullable:
        return 1
    inner = sum(
        size_min(
            field.type,
            is_array=field.is_array,
            nullable=field.is_nullable_in(version),
            version=version,
            flexible=flexible,
        )
        for field in shape.FIELDS.values()
        if field.tag is None and field.is_in(version)
    )
    return inner + flexible


def tagged_fields(shape: type[Struct], version: int) -> list[tuple[int, str, Field]]:
    """The tagged fields that a struct has in a version, by tag."""
    return sorted(
        (field.tag, name, field)
        for name, field in shape.FIELDS.items()
        if field.tag is not None and field.is_in(version)
    )
