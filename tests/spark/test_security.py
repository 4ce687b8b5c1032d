"""TLS and SASL through Spark's options: a broker that wants both, read by driver, stream and tasks."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.base.errors import SettingError
from penstock.spark.connecting import cluster_of
from penstock.spark.options import read_settings
from tests.secured_kafka import PASSWORD, USER, Secured, properties, secured
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["secured"]

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("spark")]

LEAST = {"kafka.bootstrap.servers": "b:1", "subscribe": "a"}


def options(secured: Secured, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": secured.at("BOTH"),
        "subscribe": topic,
        "startingOffsets": "earliest",
        **{f"kafka.{name}": value for name, value in properties(secured, **more).items()},
    }


def given(reader: Any, options: Mapping[str, str]) -> Any:
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader


@pytest.fixture
def values(secured: Secured, topic: str) -> list[str]:
    written = [f"value {number}" for number in range(20)]
    topics = Topics(secured.kafka.bootstrap)
    topics.create(topic, 2)
    topics.write_values(topic, written[:10], partition=0)
    topics.write_values(topic, written[10:], partition=1)
    return written


def test_a_batch_is_read_inside_tls_by_one_who_has_proven_who_it_is(
    spark: "SparkSession", secured: Secured, topic: str, values: list[str]
) -> None:
    frame = given(spark.read.format("penstock"), options(secured, topic)).load()
    assert sorted(bytes(row.value).decode() for row in frame.collect()) == sorted(values)


def test_a_stream_is_read_so_too(
    spark: "SparkSession", secured: Secured, topic: str, values: list[str], tmp_path: Path
) -> None:
    seen: list[str] = []
    frame = given(spark.readStream.format("penstock"), options(secured, topic)).load()
    query = (
        frame.writeStream.foreachBatch(
            lambda batch, _number: seen.extend(bytes(row.value).decode() for row in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(seen) == sorted(values)


def test_a_wrong_password_fails_the_read_at_once_and_is_not_shown(
    spark: "SparkSession", secured: Secured, topic: str
) -> None:
    wrong = options(secured, topic, password="wrong" + PASSWORD)
    with pytest.raises(Exception, match=f"refused SCRAM-SHA-512 of user '{USER}'") as caught:
        given(spark.read.format("penstock"), wrong).load().collect()
    assert PASSWORD not in str(caught.value)


def test_options_of_security_are_known_in_lower_case_and_can_be_pickled_without_being_shown() -> None:
    settings = read_settings(
        {
            **LEAST,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": "hush",
            "kafka.ssl.endpoint.identification.algorithm": "",
        }
    )
    cluster = cluster_of(settings)
    security = cluster.settings.security
    assert security.sasl is not None
    assert security.tls is not None
    assert (security.sasl.user, security.sasl.password.reveal()) == ("alice", "hush")
    assert not security.tls.host_is_checked
    assert pickle.loads(pickle.dumps(cluster)) == cluster
    assert len({cluster, pickle.loads(pickle.dumps(cluster))}) == 1
    assert "hush" not in repr(cluster) + repr(settings)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kafka.security.protocl": "SSL"}, r"did you mean kafka\.security\.protocol\?"),
        ({"kafka.security.protocol": "SASL_SSL"}, r"needs sasl\.mechanism"),
        ({"kafka.security.protocol": "TLS"}, r"kafka\.security\.protocol cannot be 'TLS'"),
        ({"kafka.sasl.password": "hush"}, r"set security\.protocol to SASL_PLAINTEXT or SASL_SSL"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS"}, "only PEM is read"),
    ],
)
def test_options_of_security_that_cannot_be_are_refused_before_a_broker_is_asked(
    more: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        read_settings({**LEAST, **more})
    assert "hush" not in str(caught.value)
