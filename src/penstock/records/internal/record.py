"""A record of an internal topic: coordinators write these, and read them when a shard is loaded.

In bytes, a key is its type in 16 bits and then its fields; a value is its version in 16 bits and then its fields.
No value is a tombstone: the key is deleted. The `RecordFormat` of the topic has the types and the version in which
values are written.
"""

from collections.abc import Callable, Mapping
from struct import Struct as Packed
from typing import Any, ClassVar, Final, NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.schema.codec import decode, encode
from penstock.schema.words import Versioned

_NUMBER: Final = Packed(">h")
_KEY_VERSION: Final = 0  # keys have only one version: another one would be another key
_NEWER_VERSION_MAX: Final = (
    127  # versions are counted up; where a text stands instead, its first letters are more
)


class NewerRecordError(PeerError):
    """A record of a known type in a newer version than this program supports."""


class RecordKey(Versioned):
    """The key of an internal record. Two are equal if all their fields are."""

    TYPE: ClassVar[int]


class RecordValue(Versioned):
    """The value of an internal record."""


class InternalRecord(NamedTuple):
    """One change of a coordinator's durable state."""

    key: RecordKey
    value: RecordValue | None  # None: a tombstone


class RecordType(NamedTuple):
    """The shapes of one type of record, and the version in which its values are written."""

    key: type[RecordKey]
    value: type[RecordValue]
    written_version: int
    # A faster encoder with the same result; it returns None for what only the schema can encode. See `fast_encoders`.
    encode: Callable[[Any, Any], tuple[bytes, bytes] | None] | None = None


class RecordFormat:
    """The types of one internal topic's records."""

    def __init__(self, *types: RecordType) -> None:
        self._types: Mapping[int, RecordType] = {type_.key.TYPE: type_ for type_ in types}

    def type_of(self, number: int) -> RecordType:
        return self._types[number]

    def encode(self, record: InternalRecord) -> tuple[bytes, bytes | None]:
        """The key and the value as bytes."""
        type_ = self._types[record.key.TYPE]
        if type_.encode is not None and isinstance(record.value, type_.value):
            encoded = type_.encode(*record)
            if encoded is not None:
                return encoded
        return self.encode_by_schema(record)

    def encode_by_schema(self, record: InternalRecord) -> tuple[bytes, bytes | None]:
        """Encode any record by its schema."""
        type_ = self._types[record.key.TYPE]
        key = b"".join((_NUMBER.pack(type_.key.TYPE), *encode(record.key, _KEY_VERSION)))
        if record.value is None:
            return key, None
        version = self.version_of(record.value, type_)
        return key, b"".join((_NUMBER.pack(version), *encode(record.value, version)))

    def version_of(self, value: RecordValue, type_: RecordType) -> int:
        """The version in which a value is written."""
        assert isinstance(value, type_.value), f"{type(value).__name__} under a {type_.key.__name__}"
        return type_.written_version

    def decode(self, key: Buffer, value: Buffer | None) -> InternalRecord | None:
        """Decode a record; None for an unknown type, which a newer program wrote and which is ignored.

        PeerError if the bytes are no record. NewerRecordError for a known type in an unknown version: ignoring it
        would leave a wrong value for its key.
        """
        type_ = self._types.get(_number(key))
        if type_ is None:
            return None
        decoded = decode(type_.key, _KEY_VERSION, key, _NUMBER.size)
        if value is None:
            return InternalRecord(decoded, None)
        version = _number(value)
        if type_.value.VERSIONS[1] < version <= _NEWER_VERSION_MAX:
            raise NewerRecordError(
                f"a {type_.value.__name__} of version {version} was written by a newer program, and this one reads "
                f"them up to {type_.value.VERSIONS[1]}: install the version that wrote it, or a newer one"
            )
        return InternalRecord(decoded, decode(type_.value, version, value, _NUMBER.size))


def _number(buffer: Buffer) -> int:
    if len(buffer) < _NUMBER.size:
        raise PeerError(f"an internal record's part of {len(buffer)} bytes")
    number: int = _NUMBER.unpack_from(buffer)[0]
    return number
