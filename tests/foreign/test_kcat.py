"""kcat against a broker process: producing, consuming by partition, metadata, offsets by time."""

import json
import subprocess

import pytest

from peers import tools
from peers.brokers import Broker
from tests.foreign import on_disk
from tests.foreign.sample import CODECS

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kcat")]


def kcat(broker: Broker, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [tools.locate("kcat"), "-b", broker.bootstrap, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_lines_go_in_and_come_out(broker: Broker, topic: str, codec: str) -> None:
    lines = "".join(f"key {number}:value {number}\n" for number in range(100))
    # One batch: librdkafka leaves one uncompressed that compression would not make smaller.
    kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-X", "linger.ms=500", text=lines)

    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-K:", "-e", "-q") == lines
    assert on_disk.codecs(broker.data, topic) == {codec}


def test_consuming_from_an_offset_to_a_count_and_from_the_end(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", text="a\nb\nc\nd\ne\n")

    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "2", "-c", "2", "-q") == "c\nd\n"
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q") == "e\n"
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "end", "-e", "-q") == ""


def test_headers_and_null_values(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "trace=17", text="gone:\n")

    shown = json.loads(kcat(broker, "-C", "-t", topic, "-p", "0", "-e", "-q", "-J"))
    assert (shown["key"], shown["payload"], shown["headers"]) == ("gone", None, ["trace", "17"])


def test_metadata(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", text="x\n")

    shown = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert [f"{each['name']}" for each in shown["brokers"]] == [broker.bootstrap]
    (described,) = shown["topics"]
    assert described["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "replicas": [{"id": 1}],
        "isrs": [{"id": 1}],
    }


def test_offsets_by_time(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", text="x\ny\n")

    assert kcat(broker, "-Q", "-t", f"{topic}:0:-1").split()[-1] == "2"
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-2").split()[-1] == "0"
    assert kcat(broker, "-Q", "-t", f"{topic}:0:1").split()[-1] == "0"
