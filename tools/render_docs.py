"""Renders the tables in docs/ that follow from code: settings, topic and group configs, options of the Spark source.

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
from penstock.client.security_settings import SECURITY_SETTINGS
from penstock.spark.options import READ_OPTIONS, WRITE_OPTIONS
from penstock.spark.pipelines.project import FLOW_SETTINGS, PROJECT_SETTINGS

DOCS = Path(__file__).resolve().parent.parent / "docs"

_TOPIC_CONFIGS = """\
# Topic configs

Every topic config of Apache Kafka 4.3 is either honoured or rejected. Set them when a topic is created, or later with
`penstock topic config` or any admin client (`kafka-configs`). A topic without a config takes the broker setting
named beside it, and without that the default.

This page is rendered from `src/penstock/base/topic_settings.py` by `tools/render_docs.py`.

## Honoured

{honoured}

## Rejected

These are described, and accepted at their default, so that tools which write all configs back keep working. Any
other value is answered with INVALID_CONFIG and the reason.

{refused}
"""

_BROKER_SETTINGS = """\
# Broker settings

Names and meanings are Kafka's where Kafka has the setting; Penstock's own begin with `penstock.`. A value comes from
these sources; a later one overrides an earlier one:

1. the default,
2. the TOML file given with `--config`: `log.retention.hours = 24`, or a table `[log.retention]` with `hours = 24`,
   or the name in quotes, which a name that begins like another one needs (`"max.connections" = 500`),
3. the environment: `PENSTOCK_` and the name in upper case with underscores, such as `{example}`; for
   `penstock.work.threads` it is `PENSTOCK_WORK_THREADS`,
4. `--set name=value`, as often as needed,
5. `--listen HOST:PORT` for `listeners` and `--data-dir DIR` for `log.dirs`.

An unknown name is an error that names the nearest known one. Settings marked *live* can be changed while the broker
runs, with `penstock broker config` or any admin client; the others need a restart.

This page is rendered from `src/penstock/base/broker_settings.py` by `tools/render_docs.py`.

## The process

SIGTERM, Ctrl-C and a closed terminal stop `penstock serve` cleanly; a second signal ends it at once, as `kill -9` does.

| exit code | |
|---|---|
| 0 | stopped cleanly |
| 1 | could not start; its data directory failed; or stopped without leaving its cluster, its logs closed cleanly |
| 2 | wrong arguments |
| 143, 130, 129 | ended at once by a second SIGTERM, Ctrl-C or SIGHUP; the next start recovers the logs |

"ready", "stopping" and the address of the metrics are written to stdout, all other lines to stderr, each with the time.
`--log-format json` makes every line an object with `time` (UTC), `level`, `logger`, `message`, and `exception` after an
internal error; `--verbose` adds connections, rejected requests, elections and metadata changes.

## Settings

{settings}

## Defaults of topic configs

The defaults of topics that do not set the config; see [topic configs](topic-configs.md) for the meaning.

{topic_defaults}
"""


_GROUP_CONFIGS = """\
# Group configs

A group of the consumer protocol may have its own configs, set before or after it is created, with any admin client
(`kafka-configs --entity-type groups`). A group without a config takes the broker setting named beside it; the broker's
`group.consumer.min…` and `group.consumer.max…` settings bound the values.

This page is rendered from `src/penstock/base/group_settings.py` by `tools/render_docs.py`.

{settings}
"""


_SPARK_OPTIONS = """\
# Options of the Spark source and sink

For `spark.read.format("penstock")` and `.readStream`, `df.write` and `.writeStream`; [spark.md](spark.md) says how
to use them. Names are those of Spark's own Kafka source where it has the option, and case does not matter. An unknown
name is an error that names the nearest known one. Options of the Java client that have no effect here are accepted and
ignored.

This page is rendered from `src/penstock/spark/options.py` by `tools/render_docs.py`.

## Reading

{read}

## Writing

{write}
"""


_PIPELINE_SETTINGS = """\
# Settings of a pipeline

The settings of `pipeline.toml`; [pipelines.md](pipelines.md) shows an example. An unknown name is an error that names
the nearest known one.

This page is rendered from `src/penstock/spark/pipelines/project.py` by `tools/render_docs.py`.

## The project

{project}

Besides, there are the tables `[flows.NAME]`, `[spark]` (settings of the Spark session) and `[kafka]`
(settings of the client, as in [spark-options.md](spark-options.md) without `kafka.`).

## A flow

{flow}

Besides, there are `to` (`{{ topic = "NAME" }}`, with `options` of the sink; or
`{{ table = "NAME", key = ["COLUMN"] }}`, without a key an append table), `options` (of the source) and `spark`
(added to the session's settings).
"""


def pipeline_settings() -> str:
    """docs/pipeline-settings.md."""
    columns = {"setting": _name, "default": _default, "allowed": _allowed, "meaning": _doc}
    return _PIPELINE_SETTINGS.format(
        project=_table(columns, PROJECT_SETTINGS), flow=_table(columns, FLOW_SETTINGS)
    )


def spark_options() -> str:
    """docs/spark-options.md."""
    columns = {"option": _name, "default": _default, "allowed": _allowed, "meaning": _doc}
    return _SPARK_OPTIONS.format(read=_table(columns, READ_OPTIONS), write=_table(columns, WRITE_OPTIONS))


_CLIENT_SECURITY = """\
# TLS and SASL for clients

Penstock's client supports all four security protocols, PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL, and the mechanisms
PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. (Penstock's broker has only PLAINTEXT listeners yet: this is for
clusters of Apache Kafka and others.) The settings have the names of Kafka's clients, and of librdkafka where those
differ.

In Spark, they are options, with `kafka.` before the names that are Kafka's:

<!-- not run: it needs a broker with SASL; tests/spark/test_security.py has one -->
```python
events = (
    spark.readStream.format("penstock")
    .option("kafka.bootstrap.servers", "broker:9093")
    .option("kafka.security.protocol", "SASL_SSL")
    .option("kafka.sasl.mechanism", "SCRAM-SHA-256")
    .option("kafka.sasl.username", "alice")
    .option("kafka.sasl.password", password)
    .option("kafka.ssl.truststore.location", "/etc/kafka/ca.pem")
    .option("subscribe", "events")
    .load()
)
```

Files are read on the driver and on every machine that runs tasks. PEM text (`kafka.ssl.truststore.certificates`,
`kafka.ssl.keystore.certificate.chain`, `kafka.ssl.keystore.key`) is sent to them with the query.

On the command line they are in a properties file, as for Kafka's own tools, given with `--command-config` or
PENSTOCK_COMMAND_CONFIG. (`penstock pipeline` reads them from `[kafka]` in `pipeline.toml`; `penstock table create`
takes them as `--option kafka.…`.)

```properties
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";
ssl.truststore.location=/etc/kafka/ca.pem
```

In Python: `ClientSettings(security=Security(tls=Tls(...), sasl=Sasl(...)))`, from
`penstock.client.security` and `penstock.world.tls`.

## Good to know

- **Stores are PEM.** A JKS or PKCS12 store is rejected with the two commands that convert it. A key store has
  certificate and private key in one file; `ssl.key.password` decrypts the key.
- **Tokens.** `penstock.sasl.token.function=my.module:fresh_token` is called before every authentication, so tokens may
  be short-lived; it may be a coroutine function. It is imported where it is called: in Spark, on the driver and in
  tasks. `clientId` and `clientSecret` of Java's login module are not used; the function fetches the token.
- **Reauthentication** (`connections.max.reauth.ms`, or a token's lifetime): the client reauthenticates on the same
  connection when 85 % of the session lifetime have passed; requests wait meanwhile, and none fails.
- **Authentication errors are not retried.** A wrong password, a mechanism that is not offered, a certificate that is
  not trusted or for another host: an `AuthenticationError` at once, with what to change. No message and no `repr`
  contains a secret.
- **Not supported:** Kerberos (GSSAPI), delegation tokens, SASLprep of names (Kafka's client has none either), TLS
  below 1.2.

## Settings

{settings}

This page is rendered from `src/penstock/client/security_settings.py` by `tools/render_docs.py`.
"""


def client_security() -> str:
    """docs/client-security.md."""
    columns = {"setting": _name, "default": _default, "allowed": _allowed, "meaning": _doc}
    return _CLIENT_SECURITY.format(settings=_table(columns, SECURITY_SETTINGS))


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
        "meaning": lambda s: s.doc + (f" Other values are rejected: {s.refused}." if s.refused else ""),
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
    "pipeline-settings.md": pipeline_settings,
    "spark-options.md": spark_options,
    "client-security.md": client_security,
}


def main() -> None:
    for name, render in PAGES.items():
        (DOCS / name).write_text(render())


if __name__ == "__main__":
    main()
