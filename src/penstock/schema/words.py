"""The functions and base classes to declare a schema with.

A declaration reads like the protocol's own schema:

    class FetchPartition(Struct):
        partition: int = words.int32("0+")
        current_leader_epoch: int = words.int32("9+", default=-1, ignorable=True)

One class holds the fields of all versions. A field that a version lacks has its default after reading, and is
left out when writing; if it has another value then, that is an error unless the schema calls it ignorable.

Why not `dataclasses`: it costs 0.3 to 0.5 ms per class at import, and an API has up to fifteen. Here a class
costs a few microseconds until its constructor is called. Type checkers treat both alike.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, dataclass_transform

from penstock.base.buffers import Buffer

# Read: a view into the frame, or None. Written: one buffer or several, none of them copied.
Records: TypeAlias = Buffer | Sequence[Buffer] | None

_VERSION_MAX: Final = 32767

# The most bytes of a string in UTF-8: the largest length of 16 bits. Flexible versions could encode more, and are
# limited too: the string may be sent in another message, or written in a record, that is not flexible.
STRING_BYTES_MAX: Final = 32767


class _Unset:
    """The type of UNSET, which means "not given"; None is a value."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


class FieldKind(NamedTuple):
    """A primitive type of the protocol; calling it declares a field of that type."""

    name: str
    code: str  # the letter of the struct module; empty where the size varies
    size: int
    default: object

    def __call__(
        self,
        versions: str,
        *,
        nullable: str = "",
        tag: int | None = None,
        ignorable: bool = False,
        default: object = UNSET,
    ) -> Any:
        """A field of this type. `versions` and `nullable` are ranges as in "3+", "1-4" or "2"."""
        return Field(
            self, False, versions, nullable, tag, ignorable, self.default if default is UNSET else default
        )


int8: Final = FieldKind("int8", "b", 1, 0)
int16: Final = FieldKind("int16", "h", 2, 0)
uint16: Final = FieldKind("uint16", "H", 2, 0)
int32: Final = FieldKind("int32", "i", 4, 0)
int64: Final = FieldKind("int64", "q", 8, 0)
float64: Final = FieldKind("float64", "d", 8, 0.0)
boolean: Final = FieldKind("bool", "?", 1, False)
uuid: Final = FieldKind("uuid", "16s", 16, bytes(16))
string: Final = FieldKind("string", "", 0, "")
blob: Final = FieldKind("bytes", "", 0, b"")
records: Final = FieldKind("records", "", 0, None)


class Field(NamedTuple):
    """One field: its type, the versions that have it, and its default.

    The default UNSET means a new empty list or a new struct.
    """

    type: "FieldKind | type[Struct]"
    is_array: bool
    versions: str
    nullable: str
    tag: int | None
    ignorable: bool
    default: object

    def is_in(self, version: int) -> bool:
        return version in version_range(self.versions)

    def is_nullable_in(self, version: int) -> bool:
        return bool(self.nullable) and version in version_range(self.nullable)


def array(
    element: "FieldKind | type[Struct]",
    versions: str,
    *,
    nullable: str = "",
    tag: int | None = None,
    ignorable: bool = False,
    default: object = UNSET,
) -> Any:
    """A field that is a list; empty unless `default` is None."""
    return Field(element, True, versions, nullable, tag, ignorable, default)


def struct(
    shape: "type[Struct]",
    versions: str,
    *,
    nullable: str = "",
    tag: int | None = None,
    ignorable: bool = False,
    default: object = UNSET,
) -> Any:
    """A field that is one struct.

    A tagged struct that is absent is None: most responses have none of theirs, so none are created. One that may
    be null is what Kafka makes of it, an empty one: its null is written.
    """
    if tag is not None and not nullable:
        default = None
    return Field(shape, False, versions, nullable, tag, ignorable, default)


def version_range(text: str) -> range:
    """The versions that "3+", "1-4" or "2" stands for."""
    if text.endswith("+"):
        return range(int(text[:-1]), _VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class _StructType(type):
    """Turns the declared fields of a class body into slots."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "_StructType":
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = fields
        return super().__new__(mcs, name, bases, namespace)


@dataclass_transform(kw_only_default=True)
class Struct(metaclass=_StructType):
    """A part of a message: fields with defaults, given by keyword, comparable and printable."""

    FIELDS: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        # The first construction writes the class's own constructor, which is then found before this one.
        constructor = _constructor(type(self))
        type(self).__init__ = constructor  # type: ignore[method-assign]
        constructor(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Versioned(Struct):
    """A struct that is encoded as a whole in one of its versions: a message, or a part of an internal record."""

    VERSIONS: ClassVar[tuple[int, int]]  # first and last of the schema, both included
    FLEXIBLE_SINCE: ClassVar[int | None]  # the first version with compact lengths and tagged fields

    @classmethod
    def has_version(cls, version: int) -> bool:
        return cls.VERSIONS[0] <= version <= cls.VERSIONS[1]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.FLEXIBLE_SINCE is not None and version >= cls.FLEXIBLE_SINCE


class Message(Versioned):
    """The body of a request or a response."""

    API_KEY: ClassVar[int]


def _constructor(shape: type[Struct]) -> Callable[..., None]:
    """A constructor with keywords only, as source: several times faster than setting attributes in a loop."""
    scope: dict[str, Any] = {"UNSET": UNSET}
    parameters, body = [], []
    for name, field in shape.FIELDS.items():
        if field.default is not UNSET:
            parameters.append(f"{name}={field.default!r}")
            body.append(f"    self.{name} = {name}")
            continue
        fresh = "[]"
        if not field.is_array:
            fresh = f"new_{name}()"
            scope[f"new_{name}"] = field.type
        parameters.append(f"{name}=UNSET")
        body.append(f"    self.{name} = {fresh} if {name} is UNSET else {name}")
    head = f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):"
    exec("\n".join([head, *(body or ["    pass"])]), scope)
    constructor: Callable[..., None] = scope["__init__"]
    return constructor
