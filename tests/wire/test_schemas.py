"""The declared messages say what Apache Kafka's own schemas say, and importing one imports no other."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from penstock.records.internal import group_shapes, transaction_shapes
from penstock.records.internal.record import RecordKey, RecordValue
from penstock.schema.words import UNSET, Field, FieldKind, Message, Struct, Versioned, version_range
from penstock.wire.apis import APIS
from tests.wire.shapes import messages

NUMBERS = {"int8", "int16", "uint16", "int32", "int64", "float64"}


@pytest.fixture(scope="module")
def kafka() -> dict[str, Any]:
    """Kafka's schemas by name, from the jars of its client library and of its coordinators."""
    tools = Path(os.environ.get("PENSTOCK_TOOLS", Path.home() / ".cache" / "penstock" / "tools"))
    schemas: dict[str, Any] = {}
    for library in ("clients", "group-coordinator", "transaction-coordinator"):
        jars = sorted((tools / "kafka" / "libs").glob(f"kafka-{library}-[0-9]*.jar"))
        if not jars:
            reason = f"no kafka-{library} jar in {tools}/kafka/libs; `make tools` brings it"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        schemas |= schemas_in(jars[-1])
    return schemas


def schemas_in(jar: Path) -> dict[str, Any]:
    schemas = {}
    with zipfile.ZipFile(jar) as archive:
        for path in archive.namelist():
            if path.startswith("common/message/") and path.endswith(".json"):
                lines = archive.read(path).decode().splitlines()
                schema = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                schemas[schema["name"]] = schema
    return schemas


def python_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def same_versions(ours: str, theirs: str) -> bool:
    return version_range(ours) == version_range(theirs)


def expected_default(declared: dict[str, Any], field: Field) -> object:
    """The default of a field, according to Kafka's rules."""
    type_ = declared["type"]
    value = declared.get("default") or ""  # a bare null is none to Kafka's generator; only the word "null" is
    if value == "null" or type_ == "records":
        return None
    if type_.startswith("[]"):
        return UNSET
    if type_ in NUMBERS:
        return int(str(value), 0) if value != "" else 0
    if type_ == "bool":
        return str(value).lower() == "true"
    if type_ in ("string", "bytes", "uuid"):
        return {"string": value, "bytes": b"", "uuid": bytes(16)}[type_]
    # A tagged struct that is not there is None, unless null is something that can be written.
    return UNSET if field.tag is None or field.nullable else None


def check_struct(shape: type[Struct], declared: list[dict[str, Any]], common: dict[str, Any]) -> None:
    assert list(shape.FIELDS) == [python_name(field["name"]) for field in declared]
    for field, expected in zip(shape.FIELDS.values(), declared, strict=True):
        where = f"{shape.__name__}.{expected['name']}"
        assert same_versions(field.versions, expected.get("versions", expected.get("taggedVersions"))), where
        assert field.nullable == expected.get("nullableVersions", ""), where
        assert field.tag == expected.get("tag"), where
        assert expected.get("taggedVersions", field.versions) == field.versions, where
        assert field.ignorable == expected.get("ignorable", False), where
        assert field.default == expected_default(expected, field), where
        check_type(field, expected, common)


def check_type(field: Field, expected: dict[str, Any], common: dict[str, Any]) -> None:
    assert field.is_array == expected["type"].startswith("[]")
    name = expected["type"].removeprefix("[]")
    if isinstance(field.type, FieldKind):
        assert field.type.name == name
    else:
        # Where request and response have different structs of one name, ours of the response says whose it is.
        assert field.type.__name__ in (name, f"{name}Response")
        check_struct(field.type, expected.get("fields") or common[name], common)


def internal_shapes() -> list[type[Versioned]]:
    return [
        shape
        for module in (group_shapes, transaction_shapes)
        for shape in vars(module).values()
        if isinstance(shape, type)
        and issubclass(shape, RecordKey | RecordValue)
        and shape.__module__ == module.__name__
    ]


@pytest.mark.parametrize("shape", messages(), ids=lambda shape: shape.__name__)
def test_a_message_declares_what_kafka_declares(shape: type[Message], kafka: dict[str, Any]) -> None:
    assert kafka[shape.__name__]["apiKey"] == shape.API_KEY
    check_shape(shape, kafka[shape.__name__])


@pytest.mark.parametrize("shape", internal_shapes(), ids=lambda shape: shape.__name__)
def test_an_internal_record_declares_what_kafka_declares(
    shape: type[Versioned], kafka: dict[str, Any]
) -> None:
    if issubclass(shape, RecordKey):
        assert kafka[shape.__name__]["apiKey"] == shape.TYPE
    check_shape(shape, kafka[shape.__name__])


def check_shape(shape: type[Versioned], schema: dict[str, Any]) -> None:
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    first, _, last = schema["validVersions"].partition("-")
    assert (int(first), int(last or first)) == shape.VERSIONS
    assert schema["flexibleVersions"] == (
        "none" if shape.FLEXIBLE_SINCE is None else f"{shape.FLEXIBLE_SINCE}+"
    )
    check_struct(shape, schema["fields"], common)


def test_the_table_of_apis_has_every_api_of_kafka(kafka: dict[str, Any]) -> None:
    expected = {}
    for schema in kafka.values():
        if schema["type"] != "request":
            continue
        first, _, last = schema["validVersions"].partition("-")
        flexible = schema.get("flexibleVersions", "none")
        expected[schema["apiKey"]] = (
            schema["name"].removesuffix("Request"),
            None if first == "none" else (int(first), int(last or first)),
            None if flexible == "none" else int(flexible.removesuffix("+")),
        )
    assert {key: api[:3] for key, api in APIS.items()} == expected


def test_request_and_response_of_an_api_have_the_same_versions() -> None:
    for shape in messages():
        assert APIS[shape.API_KEY].versions == shape.VERSIONS
        assert APIS[shape.API_KEY].flexible_since == shape.FLEXIBLE_SINCE


def test_importing_one_message_imports_no_other() -> None:
    program = (
        "import sys, penstock.schema.codec, penstock.wire.headers, penstock.wire.messages.fetch\n"
        "print(*sorted(name for name in sys.modules if name.startswith('penstock.wire.messages.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["penstock.wire.messages.fetch"]
