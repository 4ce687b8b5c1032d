"""Makes writers: for a message and a version, a Python function that turns the message into chunks of bytes.

Like the readers, straight-line source with one call of the struct module per group of fixed-size fields.
Records are never copied: they are chunks of their own, between the bytes before and after them.
A value that a version cannot carry raises ValueError, unless the schema calls the field ignorable.
"""

from collections.abc import Callable
from struct import pack

from penstock.base.buffers import Buffer
from penstock.schema import words
from penstock.schema.emitter import Emitter, tagged_fields
from penstock.schema.primitives import unwritable, varint
from penstock.schema.words import UNSET, Field, FieldKind, Struct, Versioned


def make_writer(shape: type[Versioned], version: int) -> Callable[[Versioned], list[Buffer]]:
    """A function of a message that returns its bytes in chunks."""
    return _Writer(shape, version).make()


class _Writer(Emitter):
    def __init__(self, shape: type[Versioned], version: int) -> None:
        super().__init__(name=shape.__name__, version=version, flexible=shape.is_flexible(version))
        self.shape = shape
        self.out = "out"  # the name of the buffer that is being written
        self.scope |= {
            "varint": varint,
            "unwritable": unwritable,
            "pack": pack,
            "BUFFERS": (bytes, bytearray, memoryview),
        }

    def make(self) -> Callable[[Versioned], list[Buffer]]:
        self.line("out = bytearray()")
        self.line("chunks = []")
        self.write_struct(self.shape, "message")
        self.flush()
        with self.block("if out:"):
            self.line("chunks.append(out)")
        self.line("return chunks")
        writer: Callable[[Versioned], list[Buffer]] = self.compile("write(message)")
        return writer

    def emit_group(self, group: list[tuple[str, str]]) -> None:
        if not group:
            return
        if all(code == "x" for code, _ in group):
            self.line(f"{self.out} += {bytes(len(group))!r}")
            return
        method, _ = self.packed([code for code, _ in group], "pack")
        self.line(f"{self.out} += {method}({', '.join(value for code, value in group if code != 'x')})")

    def flush(self) -> None:
        """Ends the group: one call writes all of it."""
        group, self.group = self.group, []
        self.emit_group(group)

    def flush_with_length(self, length: str, code: str) -> None:
        """Ends the group with a length, in which -1 stands for null."""
        if not self.flexible:
            self.group.append((code, length))
            self.flush()
            return
        group, self.group = self.group, []
        with self.block(f"if {length} < 127:"):
            self.emit_group([*group, ("B", f"{length} + 1")])
        with self.block("else:"):
            self.emit_group(group)
            self.line(f"{self.out} += varint({length} + 1)")

    def write_struct(self, shape: type[Struct], source: str) -> None:
        for name, field in shape.FIELDS.items():
            if not field.is_in(self.version):
                self.refuse_value(shape, name, field, f"{source}.{name}")
            elif field.tag is None:
                self.write_field(field, f"{source}.{name}", where=self.where(shape, name))
        if self.flexible:
            self.write_tags(shape, source)

    def refuse_value(self, shape: type[Struct], name: str, field: Field, value: str) -> None:
        if not field.ignorable:
            with self.block(f"if {self.is_set(field, value)}:"):
                self.line(f"unwritable({self.where(shape, name)}, {self.version})")

    def is_set(self, field: Field, value: str) -> str:
        """A condition: the value is not the default."""
        if field.default is None:
            return f"{value} is not None"
        if field.default is not UNSET:
            return f"{value} != {field.default!r}"
        if field.is_array or isinstance(field.type, FieldKind):
            return f"{value} is None or len({value})" if field.nullable else f"len({value})"
        return f"{value} != {self.constant(field.type.__name__, field.type)}()"

    def write_field(self, field: Field, value: str, *, where: str) -> None:
        nullable = field.is_nullable_in(self.version)
        if isinstance(field.type, FieldKind) and field.type.code and not field.is_array:
            self.group.append((field.type.code, value))
            return
        local = self.fresh("v")
        self.line(f"{local} = {value}")
        if not nullable and field.nullable:
            with self.block(f"if {local} is None:"):
                self.line(f"unwritable({where} + ' without a value', {self.version})")
        if field.is_array:
            self.write_array(field.type, local, nullable=nullable)
        elif isinstance(field.type, FieldKind):
            self.write_bytes(field.type, local, nullable=nullable)
        elif nullable:
            self.write_nullable_struct(field.type, local, null=b"\0" if field.tag is not None else b"\xff")
        else:
            self.write_struct(field.type, local)

    def write_nullable_struct(self, shape: type[Struct], value: str, *, null: bytes) -> None:
        self.flush()
        with self.block(f"if {value} is None:"):
            self.line(f"{self.out} += {null!r}")
        with self.block("else:"):
            self.line(f"{self.out} += b'\\x01'")
            self.write_struct(shape, value)
            self.flush()

    def write_bytes(self, kind: FieldKind, value: str, *, nullable: bool) -> None:
        """A string, bytes or records."""
        length = self.fresh("n")
        if nullable:
            with self.block(f"if {value} is None:"):
                self.line(f"{length} = -1")
            with self.block("else:"):
                self.measure(kind, value, length)
        else:
            self.measure(kind, value, length)
        self.flush_with_length(length, "h" if kind is words.string else "i")
        with self.block(f"if {length} > 0:"):
            if kind is words.records:
                self.line("chunks.append(out)")
                self.line(
                    f"chunks.append({value}) if isinstance({value}, BUFFERS) else chunks.extend({value})"
                )
                self.line("out = bytearray()")
            else:
                self.line(f"{self.out} += {value}")

    def measure(self, kind: FieldKind, value: str, length: str) -> None:
        if kind is words.records:
            assert self.out == "out", "records cannot be in a tagged field"
            self.line(f"{length} = len({value}) if isinstance({value}, BUFFERS) else sum(map(len, {value}))")
            return
        if kind is words.string:
            self.line(f"{value} = {value}.encode()")
        self.line(f"{length} = len({value})")

    def write_array(self, element: FieldKind | type[Struct], value: str, *, nullable: bool) -> None:
        count = self.fresh("n")
        self.line(
            f"{count} = -1 if {value} is None else len({value})" if nullable else f"{count} = len({value})"
        )
        self.flush_with_length(count, "i")
        with self.block(f"if {count} > 0:"):
            if isinstance(element, FieldKind) and len(element.code) == 1:
                self.line(f"{self.out} += pack(f'>{{{count}}}{element.code}', *{value})")
                return
            item = self.fresh("item")
            with self.block(f"for {item} in {value}:"):
                if not isinstance(element, FieldKind):
                    self.write_struct(element, item)
                elif element.code:
                    self.group.append((element.code, item))
                else:
                    self.write_bytes(element, item, nullable=False)
                self.flush()

    def write_tags(self, shape: type[Struct], source: str) -> None:
        known = tagged_fields(shape, self.version)
        self.group.append(("x", ""))
        if not known:
            return
        group, self.group = self.group, []
        conditions = [self.is_set(field, f"{source}.{name}") for _, name, field in known]
        with self.block(f"if {' or '.join(conditions)}:"):
            self.emit_group(group[:-1])
            self.write_known_tags(shape, source)
        with self.block("else:"):
            self.emit_group(group)

    def write_known_tags(self, shape: type[Struct], source: str) -> None:
        tags, count = self.fresh("tags"), self.fresh("n")
        self.line(f"{tags} = bytearray()")
        self.line(f"{count} = 0")
        for number, name, field in tagged_fields(shape, self.version):
            value = f"{source}.{name}"
            condition = self.is_set(field, value)
            if (
                not isinstance(field.type, FieldKind)
                and not field.is_array
                and not field.is_nullable_in(self.version)
            ):
                condition += f" and {value} != {self.constant(field.type.__name__, field.type)}()"
            with self.block(f"if {condition}:"):
                outer, self.out = self.out, self.fresh("body")
                self.line(f"{self.out} = bytearray()")
                self.write_field(field, value, where=self.where(shape, name))
                self.flush()
                self.line(f"{tags} += {varint(number)!r} + varint(len({self.out})) + {self.out}")
                self.line(f"{count} += 1")
                self.out = outer
        self.line(f"{self.out} += varint({count}) + {tags}")
