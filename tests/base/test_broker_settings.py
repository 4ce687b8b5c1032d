"""The broker's settings: compared with Kafka's, and put together from file, environment and flags."""

import json
from pathlib import Path

import pytest

from penstock.base.broker_settings import (
    BROKER_SETTINGS,
    LISTENERS,
    LOG_RETENTION_HOURS,
    MAX_CONNECTIONS,
    NODE_ID,
    NUM_PARTITIONS,
    PENSTOCK_METRICS_LISTEN,
    advertised,
    bound,
    data_directory,
    synonyms,
)
from penstock.base.errors import SettingError
from penstock.base.load_settings import (
    environment_name,
    load_broker_settings,
    parse_toml,
)
from penstock.base.settings import Shown, Source

# What a real Apache Kafka 4.3.1 says of those of its broker configs that we have too.
KAFKA = json.loads(Path(__file__).with_name("kafka_broker_configs.json").read_text())

# Where a newcomer, or a machine with little memory, is better served by another default than Kafka's.
OWN_DEFAULT = {
    "advertised.listeners",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "max.connections",
    "max.connections.per.ip",
    "node.id",
    "queued.max.request.bytes",
    "replica.fetch.backoff.ms",
}


def test_a_setting_with_kafkas_name_has_kafkas_type_and_mostly_its_default():
    for setting in BROKER_SETTINGS:
        fact = KAFKA.get(setting.name)
        if fact is None:
            continue
        assert setting.kind == fact["type"], setting.name
        if setting.name not in OWN_DEFAULT:
            assert setting.render(setting.default) == fact["default"], setting.name


def test_what_can_be_changed_while_running_can_be_with_kafka_too():
    live = [setting.name for setting in BROKER_SETTINGS if setting.dynamic]
    assert not [name for name in live if name in KAFKA and KAFKA[name]["read_only"]]


def test_every_name_is_kafkas_or_ours():
    kafka_keeps_it_internal = {"producer.id.expiration.check.interval.ms"}
    kafka_had_it_once = {
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.session.timeout.ms",
    }
    kafka_shows_it_when_it_is_set = {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
    }
    kafka_has_it_for_kraft = {"initial.broker.registration.timeout.ms"}
    known = {
        *KAFKA,
        *kafka_keeps_it_internal,
        *kafka_had_it_once,
        *kafka_shows_it_when_it_is_set,
        *kafka_has_it_for_kraft,
    }
    unknown = {name for name in BROKER_SETTINGS.names() if name not in known}
    assert {name for name in unknown if not name.startswith("penstock.")} == set()


def test_every_setting_is_described_and_takes_its_own_default():
    for setting in BROKER_SETTINGS:
        assert setting.doc.endswith(".")
        if setting.default is not None:
            assert setting.parse(setting.render(setting.default)) == setting.default


def test_without_anything_given_a_broker_listens_on_loopback():
    settings = load_broker_settings()
    assert [str(one) for one in bound(settings)] == ["PLAINTEXT://127.0.0.1:9092"]
    assert advertised(settings) == bound(settings)
    assert data_directory(settings) == "penstock-data"
    assert settings[PENSTOCK_METRICS_LISTEN] == ""


def test_file_environment_set_and_flags_win_in_this_order():
    everything = {
        "file": parse_toml('node.id = 2\nlisteners = "PLAINTEXT://f:1"', file_name="a.toml"),
        "file_name": "a.toml",
        "environment": {"PENSTOCK_NODE_ID": "3", "PENSTOCK_LISTENERS": "PLAINTEXT://e:1", "HOME": "/root"},
        "assignments": ["node.id=4", "node.id=5", "listeners=PLAINTEXT://s:1"],
        "listen": "l:1",
    }
    seen = []
    for dropped in (None, "listen", "assignments", "environment", "file"):
        if dropped is not None:
            del everything[dropped]
        settings = load_broker_settings(**everything)
        seen.append((settings[NODE_ID], bound(settings)[0].host, settings.origin(LISTENERS)))
    assert seen == [
        (5, "l", "--listen"),
        (5, "s", "--set"),
        (3, "e", "environment variable PENSTOCK_LISTENERS"),
        (2, "f", "a.toml"),
        (1, "127.0.0.1", "default"),
    ]


def test_toml_tables_and_quoted_names_are_the_same():
    content = '[log.retention]\nhours = 3\n[num]\npartitions = 4\n["max.connections"]\n"per.ip" = 5\n'
    assert parse_toml(content, file_name="a.toml") == {
        "log.retention.hours": 3,
        "num.partitions": 4,
        "max.connections.per.ip": 5,
    }
    quoted = parse_toml('"max.connections" = 7\n"max.connections.per.ip" = 5', file_name="a.toml")
    assert load_broker_settings(file=quoted)[MAX_CONNECTIONS] == 7


def test_broken_toml_is_said_to_be_so():
    with pytest.raises(SettingError, match=r"a\.toml is not valid TOML: "):
        parse_toml("node.id = ", file_name="a.toml")


def test_environment_names_do_not_say_penstock_twice():
    assert environment_name("log.retention.hours") == "PENSTOCK_LOG_RETENTION_HOURS"
    assert environment_name("penstock.metrics.listen") == "PENSTOCK_METRICS_LISTEN"
    settings = load_broker_settings(environment={"PENSTOCK_METRICS_LISTEN": "127.0.0.1:0"})
    assert settings[PENSTOCK_METRICS_LISTEN] == "127.0.0.1:0"


def test_no_two_settings_share_an_environment_name():
    names = [environment_name(setting.name) for setting in BROKER_SETTINGS]
    assert len(set(names)) == len(names)


def test_variables_that_kubernetes_sets_for_a_service_called_penstock_are_not_ours():
    load_broker_settings(
        environment={
            "PENSTOCK_SERVICE_HOST": "10.0.0.1",
            "PENSTOCK_SERVICE_PORT": "9092",
            "PENSTOCK_SERVICE_PORT_KAFKA": "9092",
            "PENSTOCK_PORT": "tcp://10.0.0.1:9092",
            "PENSTOCK_PORT_9092_TCP": "tcp://10.0.0.1:9092",
            "PENSTOCK_PORT_9092_TCP_ADDR": "10.0.0.1",
        }
    )


def test_variables_of_the_command_line_and_the_tests_are_not_a_brokers():
    load_broker_settings(
        environment={
            "PENSTOCK_BOOTSTRAP_SERVERS": "localhost:9092",
            "PENSTOCK_COMMAND_CONFIG": "client.properties",
            "PENSTOCK_TOOLS": "somewhere",
        }
    )


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            {"assignments": ["num.partition=3"]},
            "--set: unknown broker setting 'num.partition'; did you mean num.partitions?",
        ),
        (
            {"environment": {"PENSTOCK_NUM_PARTITION": "3"}},
            "unknown environment variable 'PENSTOCK_NUM_PARTITION'; did you mean PENSTOCK_NUM_PARTITIONS?",
        ),
        (
            {"file": {"num.partitons": 3}, "file_name": "a.toml"},
            "a.toml: unknown broker setting 'num.partitons'; did you mean num.partitions?",
        ),
        ({"assignments": ["num.partitions"]}, "--set num.partitions: NAME=VALUE is expected"),
        ({"assignments": ["num.partitions=0"]}, "--set: num.partitions cannot be '0': allowed is 1 or more"),
        (
            {"environment": {"PENSTOCK_NODE_ID": "x"}},
            "environment variable PENSTOCK_NODE_ID: node.id cannot be 'x': a whole number is expected",
        ),
        ({"assignments": ["offsets.topic.segment.bytes=9999"]}, "allowed is 1048576 or more"),
        ({"listen": "nowhere"}, "--listen: 'nowhere' is not an address"),
        ({"listen": "0.0.0.0:9092"}, "no client can connect to PLAINTEXT://0.0.0.0:9092"),
        ({"assignments": ["log.dirs=a,b"]}, "log.dirs has 2 directories"),
        ({"data_dir": ""}, "exactly one"),
        ({"assignments": ["penstock.metrics.listen=nowhere"]}, "allowed is HOST:PORT, or empty"),
        ({"assignments": ["log.local.retention.ms=5"]}, "no tiered storage"),
        (
            {"assignments": ["log.cleaner.min.compaction.lag.ms=9", "log.cleaner.max.compaction.lag.ms=8"]},
            "min.compaction.lag.ms (9) cannot be more than",
        ),
    ],
)
def test_what_is_wrong_is_said_with_where_it_stands(sources, message):
    with pytest.raises(SettingError) as caught:
        load_broker_settings(**sources)
    assert message in str(caught.value)


def test_the_flags_for_address_and_directory_are_taken_as_they_are():
    settings = load_broker_settings(listen="[::1]:0", data_dir="odd,name")
    assert (bound(settings)[0].host, bound(settings)[0].port) == ("::1", 0)
    assert data_directory(settings) == "odd,name"


def test_a_broker_behind_a_mapped_port_says_where_it_is_reached():
    settings = load_broker_settings(
        listen="0.0.0.0:9092", assignments=["advertised.listeners=PLAINTEXT://localhost:29092"]
    )
    assert [str(one) for one in advertised(settings)] == ["PLAINTEXT://localhost:29092"]


def test_describing_shows_what_was_given_and_the_default():
    settings = load_broker_settings(assignments=["log.retention.hours=5"])
    assert synonyms(settings, LOG_RETENTION_HOURS) == [
        Shown("log.retention.hours", "5", Source.STATIC_BROKER),
        Shown("log.retention.hours", "168", Source.DEFAULT),
    ]
    assert synonyms(settings, NUM_PARTITIONS) == [Shown("num.partitions", "1", Source.DEFAULT)]
    assert synonyms(settings, BROKER_SETTINGS["log.retention.ms"]) == []
