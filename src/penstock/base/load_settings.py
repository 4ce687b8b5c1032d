"""Combines a broker's settings from a TOML file, the environment and the command line.

Pure: the caller reads the file and the environment and passes their content. Later sources override earlier ones, in
the order of `load_broker_settings`' arguments. An unknown name is an error in every source.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence

from penstock.base.broker_settings import BROKER_SETTINGS, check_together
from penstock.base.errors import SettingError
from penstock.base.listeners import PLAINTEXT, parse_address, render_address
from penstock.base.settings import Given, Settings, Source, group_by_name, unknown_name

ENVIRONMENT_PREFIX = "PENSTOCK_"

_PROPERTY = re.compile(r"([A-Za-z][A-Za-z0-9._-]*)\s*[=:]\s*(.*)")

# Variables of other commands and of the tests, which may be set in the same shell.
_OF_OTHER_PROGRAMS = frozenset(
    {
        "PENSTOCK_BOOTSTRAP_SERVERS",
        "PENSTOCK_COMPILE",
        "PENSTOCK_INTERPRETED",
        "PENSTOCK_COMMAND_CONFIG",
        "PENSTOCK_CRASHES",
        "PENSTOCK_FOREIGN_TARGET",
        "PENSTOCK_TOOLS",
        "PENSTOCK_ZOOKEEPER_JARS",
    }
)

# Kubernetes puts these into every container that runs beside a service called "penstock".
_NOT_OURS = re.compile(
    r"PENSTOCK_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)\Z"
)


def parse_toml(content: str, *, file_name: str) -> dict[str, object]:
    """The file's content as settings by name, tables flattened with dots; SettingError if it is not TOML."""
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        line = _first_property(content, is_named_so=file_name.endswith(".properties"))
        if line is not None:
            raise SettingError(
                f"{file_name} is a file of Java properties, as Apache Kafka's server.properties is, and TOML is "
                f"expected: write `{line}` for instance, with quotes around text, and leave out the settings that "
                "Penstock does not have (docs/broker-settings.md lists those it has)"
            ) from error
        raise SettingError(f"{file_name} is not valid TOML: {error}") from error
    return dict(_flatten("", document))


def _first_property(content: str, *, is_named_so: bool) -> str | None:
    """The first line that is a Java property and not TOML, written as TOML; None if the content is something else.

    TOML with a mistake looks similar, but has quotes and blanks, which a properties file for Kafka does not have.
    """
    lines = [line.strip() for line in content.splitlines()]
    lines = [line for line in lines if line and line[0] not in "#!"]
    properties = [_PROPERTY.fullmatch(line) for line in lines]
    if not all(properties) or not (is_named_so or not any('"' in line or " =" in line for line in lines)):
        return None
    for found in properties:
        assert found is not None
        name, value = found[1], found[2]
        try:
            tomllib.loads(f"{name} = {value}")
        except tomllib.TOMLDecodeError:
            return f"{name} = {json.dumps(value, ensure_ascii=False)}"
    return None


def _flatten(prefix: str, table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def environment_name(setting_name: str) -> str:
    """`log.retention.hours` is PENSTOCK_LOG_RETENTION_HOURS; `penstock.storage` is PENSTOCK_STORAGE."""
    return ENVIRONMENT_PREFIX + setting_name.removeprefix("penstock.").upper().replace(".", "_")


def load_broker_settings(
    *,
    file: Mapping[str, object] | None = None,
    file_name: str = "the configuration file",
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    listen: str | None = None,
    data_dir: str | None = None,
    node_id: int | None = None,
    zookeeper: str | None = None,
) -> Settings:
    """The settings of a broker; SettingError says what is wrong, and in which of the sources.

    `file` is what `parse_toml` gave, `assignments` are the name=value texts of `--set`.
    """
    given: list[Given] = []
    for name, raw in (file or {}).items():
        given.append(_give(name, raw, origin=file_name))
    given.extend(_from_environment(environment or {}))
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError(f"--set {assignment}: NAME=VALUE is expected")
        given.append(_give(name.strip(), value, origin="--set"))
    if listen is not None:
        given.append(_give("listeners", _listener(listen), origin="--listen"))
    if data_dir is not None:
        # As a list of one: a comma in a directory's name is just a comma.
        given.append(_give("log.dirs", [data_dir], origin="--data-dir"))
    if node_id is not None:
        given.append(_give("node.id", node_id, origin="--node-id"))
    if zookeeper is not None:
        given.append(_give("zookeeper.connect", zookeeper, origin="--zookeeper"))
    return check_together(Settings(BROKER_SETTINGS, _strongest(given)))


def _give(name: str, raw: object, *, origin: str) -> Given:
    try:
        return BROKER_SETTINGS.give(name, raw, source=Source.STATIC_BROKER, origin=origin)
    except SettingError as error:
        raise SettingError(f"{origin}: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    names = {environment_name(setting.name): setting.name for setting in BROKER_SETTINGS}
    for variable, raw in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or _NOT_OURS.match(variable):
            continue
        if variable in _OF_OTHER_PROGRAMS:
            continue
        if variable not in names:
            raise unknown_name("environment variable", variable, names)
        yield _give(names[variable], raw, origin=f"environment variable {variable}")


def _listener(address: str) -> str:
    try:
        host, port = parse_address(address)
    except SettingError as error:
        raise SettingError(f"--listen: {error}") from error
    return f"{PLAINTEXT}://{render_address(host, port)}"


def _strongest(given: Sequence[Given]) -> dict[str, tuple[Given, ...]]:
    """The last value of each name: DescribeConfigs shows all these sources as one, the static configuration."""
    return {name: group[:1] for name, group in group_by_name(given).items()}
