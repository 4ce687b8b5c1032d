"""Renders the tables in docs/ that follow from code: broker settings, topic and group configs.

python tools/render_docs.py        writes the files; a test fails while they are out of date
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from penstock.base.broker_settings import BROKER_SETTINGS
from penstock.base.group_settings import GROUP_SETTINGS
from penstock.base.load_settings import environment_name
from penstock.base.settings import Setting
from penstock.base.topic_settings import TOPIC_SETTINGS

DOCS = Path(__file__).resolve().parent.parent / "docs"

_TOPIC_CONFIGS = """\
# Topic configs

Every topic config of Apache Kafka 4.3 is known here: it is either honoured or refused. Set them when a topic is
created, or change them with any admin client (`kafka-configs`, `penstock topic alter`). A topic without a config
takes the broker setting named beside it, and without that the default.

This page is rendered from `src/penstock/base/topic_settings.py` by `tools/render_docs.py`.

## Honoured

{honoured}

## Refused

These are described and taken at their default, so that tools which write all configs back keep working. Any
other value is answered with INVALID_CONFIG and the reason.

{refused}
"""

_BROKER_SETTINGS = """\
# Broker settings

Names and meanings are Kafka's where Kafka has the setting; what is Penstock's own begins with `penstock.`. A value
comes from, the later winning over the earlier:

1. the default,
2. the TOML file given with `--config`: `log.retention.hours = 24`, or a table `[log.retention]` with `hours = 24`,
   or the name in quotes, which a name that begins like another one needs (`"max.connections" = 500`),
3. the environment: `PENSTOCK_` and the name in upper case with underscores, such as `{example}`; a name that
   begins with `penstock.` does not say it twice,
4. `--set name=value`, as often as needed,
5. `--listen HOST:PORT` for `listeners` and `--data-dir DIR` for `log.dirs`.

An unknown name is an error, with the nearest known one in the message. Those marked *live* can be changed while the
broker runs, with any admin client; for the others the broker has to be started again.

This page is rendered from `src/penstock/base/broker_settings.py` by `tools/render_docs.py`.

## Settings

{settings}

## Defaults of topic configs

What a topic without a config of its own takes; see [topic configs](topic-configs.md) for the meaning.

{topic_defaults}
"""


_GROUP_CONFIGS = """\
# Group configs

A group of the consumer protocol may have configs of its own, whether it exists yet or not. Set them with any admin
client (`kafka-configs --entity-type groups`). A group without a config takes the broker setting named beside it; the
broker's `group.consumer.min…` and `group.consumer.max…` settings say between which bounds a group may choose.

This page is rendered from `src/penstock/base/group_settings.py` by `tools/render_docs.py`.

{settings}
"""


def topic_configs() -> str:
    """docs/topic-configs.md."""
    listed = [setting for setting in TOPIC_SETTINGS if not setting.internal]
    return _TOPIC_CONFIGS.format(
        honoured=_table(
            {
                "config": _name,
                "default": _default,
                "allowed": _allowed,
                "broker setting": lambda s: ", ".join(f"`{synonym.name}`" for synonym in s.synonyms),
                "meaning": lambda s: s.doc + (" Cannot be changed after creation." if s.fixed else ""),
            },
            (setting for setting in listed if setting.refused is None),
        ),
        refused=_table(
            {"config": _name, "default": _default, "why": lambda s: s.refused or "", "meaning": _doc},
            (setting for setting in listed if setting.refused is not None),
        ),
    )


def broker_settings() -> str:
    """docs/broker-settings.md."""
    listed = [setting for setting in BROKER_SETTINGS if not setting.internal]
    stand_ins = {synonym.name for config in TOPIC_SETTINGS for synonym in config.synonyms}
    columns: dict[str, Callable[[Setting[Any]], str]] = {
        "setting": _name,
        "default": _default,
        "allowed": _allowed,
        "live": lambda s: "live" if s.dynamic else "",
        "meaning": lambda s: s.doc + (f" Refused: {s.refused}." if s.refused else ""),
    }
    return _BROKER_SETTINGS.format(
        example=environment_name("log.retention.hours"),
        settings=_table(columns, (setting for setting in listed if setting.name not in stand_ins)),
        topic_defaults=_table(columns, (setting for setting in listed if setting.name in stand_ins)),
    )


def group_configs() -> str:
    """docs/group-configs.md."""
    return _GROUP_CONFIGS.format(
        settings=_table(
            {
                "config": _name,
                "default": _default,
                "allowed": _allowed,
                "broker setting": lambda s: ", ".join(f"`{synonym.name}`" for synonym in s.synonyms),
                "meaning": _doc,
            },
            GROUP_SETTINGS,
        )
    )


def _name(setting: Setting[Any]) -> str:
    return f"`{setting.name}`"


def _doc(setting: Setting[Any]) -> str:
    return setting.doc


def _default(setting: Setting[Any]) -> str:
    shown = setting.render(setting.default)
    return f"`{shown}`" if shown else "" if shown is None else "empty"


def _allowed(setting: Setting[Any]) -> str:
    kind = setting.kind.name.lower()
    return kind if setting.allowed is None else f"{kind}: {setting.allowed.describe()}"


def _table(columns: dict[str, Callable[[Setting[Any]], str]], settings: Iterable[Setting[Any]]) -> str:
    rows = [list(columns), ["---"] * len(columns)]
    rows += [[column(setting).replace("|", "\\|") for column in columns.values()] for setting in settings]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


PAGES = {
    "topic-configs.md": topic_configs,
    "broker-settings.md": broker_settings,
    "group-configs.md": group_configs,
}


def main() -> None:
    for name, render in PAGES.items():
        (DOCS / name).write_text(render())


if __name__ == "__main__":
    main()
