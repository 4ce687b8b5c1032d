"""Writes the messages of the wire and the shapes of the internal topics' records from Kafka's schemas.

    python tools/generate_messages.py path/to/kafka/libs

Into src/penstock/wire go messages/*.py and apis.py, into src/penstock/records/internal *_shapes.py. Only facts are
taken over: names, types, versions, tags, defaults. Every API that has versions gets a module; for another internal
record add it to `INTERNAL`, and run this again.
"""

import json
import keyword
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The topic, the module and the records in it; each is a key and a value of that name.
INTERNAL = (
    (
        "__consumer_offsets",
        "group_shapes",
        (
            "LegacyOffsetCommit",
            "OffsetCommit",
            "GroupMetadata",
            "ConsumerGroupMetadata",
            "ConsumerGroupPartitionMetadata",
            "ConsumerGroupMemberMetadata",
            "ConsumerGroupTargetAssignmentMetadata",
            "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupCurrentMemberAssignment",
            "ConsumerGroupRegularExpression",
        ),
    ),
    ("__transaction_state", "transaction_shapes", ("TransactionLog",)),
)

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "penstock"
WIRE = PACKAGE / "wire"
SHAPES = PACKAGE / "records" / "internal"

Schema = dict[str, Any]

# The protocol's name: the word of `penstock.schema.words`, and Python's type.
PRIMITIVES = {
    "int8": ("int8", "int"),
    "int16": ("int16", "int"),
    "uint16": ("uint16", "int"),
    "int32": ("int32", "int"),
    "int64": ("int64", "int"),
    "float64": ("float64", "float"),
    "bool": ("boolean", "bool"),
    "string": ("string", "str"),
    "bytes": ("blob", "bytes"),
    "records": ("records", "words.Records"),
    "uuid": ("uuid", "bytes"),
}


def read_schemas(jar: Path) -> dict[str, Schema]:
    """Every schema in the jar that is a request's, a response's, a record's key or its value, by name."""
    schemas = {}
    with zipfile.ZipFile(jar) as archive:
        for path in archive.namelist():
            if re.fullmatch(r"common/message/\w+(Request|Response|Key|Value)\.json", path):
                text = re.sub(r"^\s*//.*$", "", archive.read(path).decode(), flags=re.MULTILINE)
                schema = json.loads(text)
                schemas[schema["name"]] = schema
    return schemas


def snake_case(name: str) -> str:
    """FetchOffset, validateOnly and KRaftVersion as fetch_offset, validate_only and kraft_version."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return words + "_" if keyword.iskeyword(words) else words


def structs(schema: Schema) -> Iterator[tuple[str, list[Schema]]]:
    """The nested structs of a message, innermost first."""

    def within(fields: list[Schema]) -> Iterator[tuple[str, list[Schema]]]:
        for field in fields:
            if "fields" in field:
                yield from within(field["fields"])
                yield field["type"].removeprefix("[]"), field["fields"]

    pending = [(common["name"], common["fields"]) for common in schema.get("commonStructs", [])]
    done: set[str] = set()
    while pending:  # a common struct may use another, declared after it
        name, fields = pending.pop(0)
        used = {field["type"].removeprefix("[]") for field in fields}
        if used & {other for other, _ in pending}:
            pending.append((name, fields))
            continue
        assert name not in done, f"{schema['name']} declares {name} twice"
        done.add(name)
        yield from within(fields)
        yield name, fields
    yield from within(schema["fields"])


def facts(fields: list[Schema]) -> list[Any]:
    """What makes two structs the same: all that reaches the generated class."""
    return [
        [snake_case(field["name"]), declaration(field, {}), facts(field.get("fields", []))]
        for field in fields
    ]


def default(field: Schema) -> str | None:
    """The default as Python source, or None where it is the type's own."""
    type_, value = field["type"], field.get("default")
    if value is None:
        return None  # Kafka's own generator takes the word "null" for a default, and overlooks a bare null
    if value == "null":
        return "None"
    if type_ == "bool":
        return "True" if str(value).lower() == "true" else None
    if type_ == "string":
        return repr(value) if value else None
    number = float(value) if type_ == "float64" else int(str(value), 0)
    return repr(number) if number else None


def declaration(field: Schema, renamed: dict[str, str]) -> str:
    """The right-hand side: a call of one of the words of `penstock.schema.words`."""
    type_, versions = field["type"], field.get("versions", field.get("taggedVersions"))
    element = type_.removeprefix("[]")
    word = f"words.{PRIMITIVES[element][0]}" if element in PRIMITIVES else renamed.get(element, element)
    if type_.startswith("[]"):
        start = f"words.array({word}, "
    elif element in PRIMITIVES:
        start = f"{word}("
    else:
        start = f"words.struct({word}, "
    options = [repr(versions)]
    if "nullableVersions" in field:
        options.append(f"nullable={field['nullableVersions']!r}")
    if "tag" in field:
        assert field["taggedVersions"] == versions, f"{field['name']} is tagged in some versions only"
        options.append(f"tag={field['tag']}")
    if (value := default(field)) is not None:
        options.append(f"default={value}")
    if field.get("ignorable"):
        options.append("ignorable=True")
    return start + ", ".join(options) + ")"


def annotation(field: Schema, renamed: dict[str, str]) -> str:
    type_ = field["type"]
    element = type_.removeprefix("[]")
    python = PRIMITIVES[element][1] if element in PRIMITIVES else renamed.get(element, element)
    if type_ == "records":
        return python
    absent = element not in PRIMITIVES and type_ == element and "tag" in field
    optional = "nullableVersions" in field or default(field) == "None" or absent
    return (f"list[{python}]" if type_.startswith("[]") else python) + (" | None" if optional else "")


def class_body(fields: list[Schema], renamed: dict[str, str]) -> list[str]:
    return [
        f"    {snake_case(field['name'])}: {annotation(field, renamed)} = {declaration(field, renamed)}"
        for field in fields
    ]


def flexible_since(schema: Schema) -> int | None:
    versions = schema.get("flexibleVersions", "none")
    return None if versions == "none" else int(versions.removesuffix("+"))


def version_span(schema: Schema) -> tuple[int, int] | None:
    """The first and last version, or None for an API that was removed."""
    if schema["validVersions"] == "none":
        return None
    first, _, last = schema["validVersions"].partition("-")
    return int(first), int(last or first)


def module_source(name: str, request: Schema, response: Schema) -> str:
    span = version_span(request)
    assert span is not None, f"{name} has no versions any more"
    nested = [*structs(request), *structs(response)]
    lines = [
        f'"""{name} (key {request["apiKey"]}), v{span[0]}-v{span[1]}: the request and the response.',
        "",
        "Written by tools/generate_messages.py from the protocol's schema; change that, not this.",
        '"""',
        "",
        "from penstock.schema import words",
        f"from penstock.schema.words import Message{', Struct' if nested else ''}",
    ]
    made: dict[str, list[Any]] = {}
    for message in (request, response):
        renamed: dict[str, str] = {}
        for struct, fields in structs(message):
            if struct in made:
                if made[struct] == facts(fields):
                    continue
                # Both have a struct of that name, and not the same one: the response's says whose it is.
                renamed[struct] = f"{struct}Response"
            made[renamed.get(struct, struct)] = facts(fields)
            lines += ["", "", f"class {renamed.get(struct, struct)}(Struct):", *class_body(fields, renamed)]
        lines += [
            *("", "", f"class {message['name']}(Message):"),
            f"    API_KEY = {message['apiKey']}",
            f"    VERSIONS = {version_span(message)}",
            f"    FLEXIBLE_SINCE = {flexible_since(message)}",
            "",
            *class_body(message["fields"], renamed),
        ]
    return "\n".join(lines) + "\n"


def shapes_source(topic: str, names: tuple[str, ...], schemas: dict[str, Schema]) -> str:
    """The module with the keys and values of an internal topic's records."""
    lines = [
        f'"""The keys and values of the records in {topic}, as declared.',
        "",
        "Written by tools/generate_messages.py from Kafka's schemas; change that, not this.",
        '"""',
        "",
        "from penstock.records.internal.record import RecordKey, RecordValue",
        "from penstock.schema import words",
        "from penstock.schema.words import Struct",
    ]
    made: set[str] = set()
    for name in names:
        for schema, base in ((schemas[f"{name}Key"], "RecordKey"), (schemas[f"{name}Value"], "RecordValue")):
            for struct, fields in structs(schema):
                assert struct not in made, f"two records have a struct {struct}"
                made.add(struct)
                lines += ["", "", f"class {struct}(Struct):", *class_body(fields, {})]
            lines += [
                *("", "", f"class {schema['name']}({base}):"),
                *([f"    TYPE = {schema['apiKey']}"] if base == "RecordKey" else []),
                f"    VERSIONS = {version_span(schema)}",
                f"    FLEXIBLE_SINCE = {flexible_since(schema)}",
                "",
                *class_body(schema["fields"], {}),
            ]
    return "\n".join(lines) + "\n"


def table_source(schemas: dict[str, Schema]) -> str:
    rows = []
    for schema in sorted(schemas.values(), key=lambda schema: int(schema["apiKey"])):
        if schema["type"] != "request":
            continue
        name = schema["name"].removesuffix("Request")
        span = version_span(schema)
        module = None if span is None else snake_case(name)
        row = f"Api({name!r}, {span}, {flexible_since(schema)}, {module!r})"
        rows.append(f"    {schema['apiKey']}: {row},")
    return "\n".join([*TABLE_HEAD.splitlines(), *rows, "}", ""])


TABLE_HEAD = '''"""Every API key of the protocol: its name, versions and header, without importing a message.

Written by tools/generate_messages.py from the protocol's schema; change that, not this. The versions are the
schema's; which of them the broker serves is said in `penstock.apis`.
"""

from typing import Final, NamedTuple


class Api(NamedTuple):
    """One API as the protocol declares it."""

    name: str
    versions: tuple[int, int] | None  # first and last; None where all have been removed
    flexible_since: int | None  # the first version with compact lengths and tagged fields
    module: str | None  # in `penstock.wire.messages`; None where all versions have been removed


APIS: Final[dict[int, Api]] = {
'''


def main(libraries: Path) -> None:
    schemas = {}
    for jar in ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator"):
        (path,) = libraries.glob(f"{jar}-[0-9]*.jar")
        schemas |= read_schemas(path)
    written = [WIRE / "apis.py"]
    written[0].write_text(table_source(schemas))
    for schema in schemas.values():
        if schema["type"] != "request" or version_span(schema) is None:
            continue
        name = schema["name"].removesuffix("Request")
        path = WIRE / "messages" / f"{snake_case(name)}.py"
        path.write_text(module_source(name, schemas[f"{name}Request"], schemas[f"{name}Response"]))
        written.append(path)
    for topic, module, names in INTERNAL:
        path = SHAPES / f"{module}.py"
        path.write_text(shapes_source(topic, names, schemas))
        written.append(path)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *map(str, written)], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/generate_messages.py path/to/kafka/libs")
    main(Path(sys.argv[1]))
