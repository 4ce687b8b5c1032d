"""Makes readers: for a message and a version, a Python function that turns bytes into the message.

The function is straight-line source, nested structs included, so that a request costs no calls but those of
the struct module and of the string decoder. It does not trust its input: a count is checked against the bytes that
are left before elements are allocated, a length before bytes are sliced. Truncated input raises IndexError or
struct.error, which `codec` turns into PeerError.
"""

from collections.abc import Callable
from struct import unpack_from
from typing import TypeVar

from penstock.base.buffers import Buffer
from penstock.schema import words
from penstock.schema.emitter import Emitter, size_min, tagged_fields
from penstock.schema.primitives import read_varint, refuse, skip_tags
from penstock.schema.words import UNSET, Field, FieldKind, Struct, Versioned

M = TypeVar("M", bound=Versioned)


def make_reader(shape: type[M], version: int) -> Callable[[Buffer, int, int], M]:
    """A function that reads a message from a buffer at a position, with at most a number of elements."""
    return _Reader(shape, version).make()


class _Reader(Emitter):
    def __init__(self, shape: type[Versioned], version: int) -> None:
        super().__init__(name=shape.__name__, version=version, flexible=shape.is_flexible(version))
        self.shape = shape
        self.scope |= {
            "new": object.__new__,
            "read_varint": read_varint,
            "skip_tags": skip_tags,
            "refuse": refuse,
        }

    def make(self) -> Callable[..., M]:
        self.line("end = len(buffer)")
        self.line(f"message = new({self.constant(self.shape.__name__, self.shape)})")
        self.read_struct(self.shape, "message")
        self.flush()
        # Bytes after the message are ignored, as in Kafka: librdkafka ends some requests with extra bytes.
        self.line("return message")
        reader: Callable[..., M] = self.compile("read(buffer, p, room)")
        return reader

    def flush(self) -> None:
        """Ends the group: one call reads all of it."""
        if not self.group:
            return
        codes = [code for code, _ in self.group]
        targets = [target for _, target in self.group]
        self.group = []
        if codes == ["B"]:
            self.line(f"{targets[0]} = buffer[p]")
            self.line("p += 1")
            return
        unpack, size = self.packed(codes, "unpack_from")
        self.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(buffer, p)")
        self.line(f"p += {size}")

    def read_struct(self, shape: type[Struct], target: str) -> None:
        for name, field in shape.FIELDS.items():
            if field.tag is not None or not field.is_in(self.version):
                self.line(f"{target}.{name} = {self.default(field)}")
            else:
                self.read_field(field, f"{target}.{name}", where=self.where(shape, name))
        if self.flexible:
            self.read_tags(shape, target)

    def default(self, field: Field) -> str:
        if field.default is not UNSET:
            return repr(field.default)
        if isinstance(field.type, FieldKind) or field.is_array:
            return "[]"
        return f"{self.constant(field.type.__name__, field.type)}()"

    def read_field(self, field: Field, target: str, *, where: str) -> None:
        nullable = field.is_nullable_in(self.version)
        if field.is_array:
            self.read_array(field.type, target, nullable=nullable, where=where)
        elif isinstance(field.type, FieldKind):
            self.read_primitive(field.type, target, nullable=nullable, where=where)
        elif nullable:
            self.read_nullable_struct(field.type, target, null="<= 0" if field.tag is not None else "< 0")
        else:
            self.read_new_struct(field.type, target)

    def read_new_struct(self, shape: type[Struct], target: str) -> None:
        made = self.fresh("s")
        self.line(f"{target} = {made} = new({self.constant(shape.__name__, shape)})")
        self.read_struct(shape, made)

    def read_nullable_struct(self, shape: type[Struct], target: str, *, null: str) -> None:
        """The byte before the struct says whether it is null: 0 in a tagged field, -1 elsewhere, as in Kafka."""
        mark = self.fresh("n")
        self.group.append(("b", mark))
        self.flush()
        with self.block(f"if {mark} {null}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.read_new_struct(shape, target)
            self.flush()

    def read_primitive(self, kind: FieldKind, target: str, *, nullable: bool, where: str) -> None:
        if kind.code:
            self.group.append((kind.code, target))
            return
        size = self.read_length("h" if kind is words.string else "i")
        if nullable:
            with self.block(f"if {size} == -1:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.cut(kind, target, size, where)
        else:
            self.cut(kind, target, size, where)

    def read_length(self, code: str) -> str:
        """Reads the length of a string, of bytes or of an array into a new name; -1 stands for null."""
        length = self.fresh("n")
        if not self.flexible:
            self.group.append((code, length))
            self.flush()
            return length
        self.group.append(("B", length))
        self.flush()
        with self.block(f"if {length} > 127:"):
            self.line(f"{length}, p = read_varint(buffer, p - 1)")
        self.line(f"{length} -= 1")
        return length

    def cut(self, kind: FieldKind, target: str, size: str, where: str) -> None:
        self.line(f"q = p + {size}")
        with self.block("if not p <= q <= end:"):
            self.line(f"refuse({where}, f'a length of {{{size}}} with {{end - p}} bytes left')")
        if kind is words.string:
            if self.flexible:
                with self.block(f"if {size} > {words.STRING_BYTES_MAX}:"):
                    self.line(f"refuse({where}, f'a string of {{{size}}} bytes')")
            self.line(f"{target} = str(buffer[p:q], 'utf-8')")
        elif kind is words.records:
            self.line(f"{target} = memoryview(buffer)[p:q]")
        else:
            self.line(f"{target} = bytes(buffer[p:q])")
        self.line("p = q")

    def read_array(
        self, element: FieldKind | type[Struct], target: str, *, nullable: bool, where: str
    ) -> None:
        count = self.read_length("i")
        if nullable:
            with self.block(f"if {count} == -1:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.read_elements(element, target, count, where)
        else:
            self.read_elements(element, target, count, where)

    def read_elements(self, element: FieldKind | type[Struct], target: str, count: str, where: str) -> None:
        least = size_min(
            element, is_array=False, nullable=False, version=self.version, flexible=self.flexible
        )
        with self.block(f"if not 0 <= {count} * {least} <= end - p:"):
            self.line(f"refuse({where}, f'a count of {{{count}}} with {{end - p}} bytes left')")
        self.take_room(count, where)
        if isinstance(element, FieldKind) and len(element.code) == 1:
            self.constant("unpack_from", unpack_from)
            self.line(f"{target} = list(unpack_from(f'>{{{count}}}{element.code}', buffer, p))")
            self.line(f"p += {count} * {element.size}")
            return
        items, item = self.fresh("items"), self.fresh("item")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(element, FieldKind):
                self.read_primitive(element, item, nullable=False, where=where)
            else:
                self.line(f"{item} = new({self.constant(element.__name__, element)})")
                self.read_struct(element, item)
            self.flush()
            self.line(f"{items}.append({item})")

    def take_room(self, count: str, where: str) -> None:
        """Count elements against the limit: each takes far more memory and time than its few bytes."""
        self.line(f"room -= {count}")
        with self.block("if room < 0:"):
            self.line(f"refuse({where}, 'too many elements in one message')")

    def read_tags(self, shape: type[Struct], target: str) -> None:
        known = tagged_fields(shape, self.version)
        count = self.fresh("tags")
        self.group.append(("B", count))
        self.flush()
        with self.block(f"if {count}:"):
            if not known:
                self.line("p, room = skip_tags(buffer, p - 1, end, room)")
                return
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, p = read_varint(buffer, p - 1)")
            self.take_room(count, self.where(shape, "tagged fields"))
            with self.block(f"for _ in range({count}):"):
                self.read_known_tags(shape, target)

    def read_known_tags(self, shape: type[Struct], target: str) -> None:
        tag, limit = self.fresh("tag"), self.fresh("limit")
        self.line(f"{tag}, p = read_varint(buffer, p)")
        self.line(f"{limit}, p = read_varint(buffer, p)")
        self.line(f"{limit} += p")
        branch = "if"
        for number, name, field in tagged_fields(shape, self.version):
            with self.block(f"{branch} {tag} == {number}:"):
                self.read_field(field, f"{target}.{name}", where=self.where(shape, name))
                self.flush()
            branch = "elif"
        with self.block("else:"):
            self.line(f"p = {limit}")
        with self.block(f"if p != {limit} or p > end:"):
            self.line(f"refuse({self.where(shape, 'tagged fields')}, f'tag {{{tag}}} has a wrong size')")
