"""`penstock topic config` and `penstock broker config`: effective values with their sources, and changing them."""

import difflib
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from penstock.base.errors import Refusal, UserError
from penstock.cli.output import print_json, print_lines, table
from penstock.cli.parsing import Parser, name_and_value
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.configs import Config, ConfigSource, Resource, alter_configs, describe_configs
from penstock.client.errors import AnsweredError

_VISIBLE_WITHIN_S: Final = 5.0
# The sources of values. A static broker config was given at start; the dynamic ones were altered later.
_SOURCES: Final = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.GROUP: "group",
    ConfigSource.BROKER: "broker, altered",
    ConfigSource.CLUSTER_BROKERS: "all brokers, altered",
    ConfigSource.FILE: "broker",
    ConfigSource.DEFAULT: "default",
}


def add_config_arguments(verb: Parser) -> None:
    verb.add_argument("configs", metavar="CONFIG", nargs="*", default=[], help="only these (default: all)")
    verb.add_argument(
        "--set",
        dest="set_to",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="give it this value; may be repeated",
    )
    verb.add_argument(
        "--unset",
        metavar="NAME",
        action="append",
        default=[],
        help="reset it to what it inherits; may be repeated",
    )


def run_config(arguments: Namespace, blocking: BlockingClient, resource: Resource) -> int:
    """Alter the configs that are given; then show these, or the named ones, or all."""
    set_to = dict(arguments.set_to)
    changed = [*set_to, *arguments.unset]
    client = blocking.client
    if changed:
        blocking.run(alter_configs(client, resource, set_to=set_to, reset=arguments.unset))
    found = blocking.run(_describe_changed(client, resource, set_to, arguments.unset))
    shown = _chosen(resource, found, [*arguments.configs, *changed], hidden=arguments.unset)
    if arguments.json:
        kind, name = resource.type.name.lower(), resource.name
        print_json({kind: name, "configs": [_as_json(each) for each in shown]})
    else:
        rows = [(each.name, _value(each), _source(each)) for each in shown]
        print_lines(table(("CONFIG", "VALUE", "SOURCE"), rows))
    return 0


async def _describe_changed(
    client: Client, resource: Resource, set_to: Mapping[str, str], unset: Collection[str]
) -> list[Config]:
    """All configs, once the brokers have the alterations: the controller's changes reach them a moment later."""
    deadline = client.loop.time() + _VISIBLE_WITHIN_S
    tries = 0
    while True:
        found = (await describe_configs(client, [resource]))[resource]
        if isinstance(found, Refusal):
            raise AnsweredError(found, f"describe the configs of {resource}")
        own = {config.name: config.value for config in found if config.is_own}
        is_shown = all(own.get(name) == value for name, value in set_to.items())
        if (is_shown and not own.keys() & set(unset)) or client.loop.time() >= deadline:
            return found
        await client.back_off(tries)
        tries += 1


def _chosen(
    resource: Resource, found: Sequence[Config], names: Sequence[str], *, hidden: Collection[str]
) -> Sequence[Config]:
    """The configs of these names, or all; some brokers hide a config that is not set."""
    known = {config.name: config for config in found}
    for name in names:
        if name not in known and name not in hidden:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise UserError(f"{resource} has no config {name!r}{hint}")
    return [config for config in found if not names or config.name in names]


def _value(config: Config) -> str:
    if config.is_sensitive:
        return "(hidden)"
    return config.value or "-"


def _source(config: Config) -> str:
    return _SOURCES.get(config.source, "unknown")


def _as_json(config: Config) -> dict[str, object]:
    return {
        "name": config.name,
        "value": None if config.is_sensitive else config.value,
        "source": _source(config),
        "read_only": config.is_read_only,
    }
