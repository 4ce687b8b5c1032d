"""Encoding and decoding, case by case: versions, nulls, tags, records, and what is refused."""

import pytest

from penstock.base.errors import PeerError
from penstock.schema.codec import decode, encode
from penstock.schema.primitives import read_varint, varint
from penstock.schema.words import STRING_BYTES_MAX
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from penstock.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from penstock.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def joined(message: object, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]


def fetch_answer(**partition: object) -> FetchResponse:
    data = PartitionData(**partition)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


class TestAMessage:
    def test_takes_the_defaults_of_the_protocol(self) -> None:
        request = FetchRequest()
        assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 0x7FFFFFFF, -1)
        assert (request.topics, request.rack_id, request.cluster_id, request.replica_state) == (
            [],
            "",
            None,
            None,
        )

    def test_does_not_share_its_lists(self) -> None:
        first, second = FetchRequest(), FetchRequest()
        first.topics.append(FetchTopic())
        assert second.topics == []

    def test_equals_another_with_the_same_values(self) -> None:
        assert FetchTopic(topic="a") == FetchTopic(topic="a")
        assert FetchTopic(topic="a") != FetchTopic(topic="b")
        assert FetchTopic() != FetchPartition()

    def test_prints_its_values(self) -> None:
        assert repr(Cursor(topic_name="a", partition_index=3)) == "Cursor(topic_name='a', partition_index=3)"

    def test_has_no_other_attributes(self) -> None:
        with pytest.raises(TypeError, match="colour"):
            FetchTopic(colour="red")  # type: ignore[call-arg]
        with pytest.raises(AttributeError):
            FetchTopic().colour = "red"  # type: ignore[attr-defined]


class TestVersions:
    def test_a_field_that_the_version_lacks_is_left_out_and_reads_as_its_default(self) -> None:
        request = FetchRequest(max_wait_ms=5, rack_id="west", session_id=7)
        assert decode(FetchRequest, 4, joined(request, 4)) == FetchRequest(max_wait_ms=5)
        assert decode(FetchRequest, 7, joined(request, 7)) == FetchRequest(max_wait_ms=5, session_id=7)
        assert decode(FetchRequest, 11, joined(request, 11)) == request

    def test_a_field_that_cannot_be_ignored_is_not_dropped_silently(self) -> None:
        answer = fetch_answer(preferred_read_replica=2)
        assert decode(FetchResponse, 11, joined(answer, 11)).responses == answer.responses
        with pytest.raises(ValueError, match=r"PartitionData\.preferred_read_replica .* version 10"):
            encode(answer, 10)

    def test_a_tagged_struct_that_cannot_be_ignored_is_not_dropped_silently(self) -> None:
        with pytest.raises(ValueError, match=r"FetchRequest\.replica_state .* version 14"):
            encode(FetchRequest(replica_state=ReplicaState(replica_id=1)), 14)

    @pytest.mark.parametrize("version", [3, 19, -1])
    def test_a_version_that_does_not_exist_is_refused(self, version: int) -> None:
        with pytest.raises(PeerError, match="no version"):
            decode(FetchRequest, version, b"")
        with pytest.raises(ValueError, match="no version"):
            encode(FetchRequest(), version)


class TestNull:
    @pytest.mark.parametrize("version", [1, 8, 9, 13])
    def test_a_null_array_is_not_an_empty_one(self, version: int) -> None:
        assert decode(MetadataRequest, version, joined(MetadataRequest(topics=None), version)).topics is None
        assert decode(MetadataRequest, version, joined(MetadataRequest(topics=[]), version)).topics == []

    def test_null_cannot_be_written_where_the_version_has_none(self) -> None:
        with pytest.raises(ValueError, match=r"MetadataRequest\.topics without a value .* version 0"):
            encode(MetadataRequest(topics=None), 0)
        unnamed = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=bytes(range(16)))])
        with pytest.raises(ValueError, match=r"MetadataRequestTopic\.name without a value .* version 9"):
            encode(unnamed, 9)
        assert decode(MetadataRequest, 10, joined(unnamed, 10)) == unnamed

    def test_null_is_refused_where_the_version_has_none(self) -> None:
        with pytest.raises(PeerError, match=r"MetadataRequest\.topics: a count of -1"):
            decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
        with pytest.raises(PeerError, match=r"FindCoordinatorRequest\.key: a length of -1"):
            decode(FindCoordinatorRequest, 0, b"\xff\xff")
        with pytest.raises(PeerError, match=r"FindCoordinatorRequest\.key: a length of -1"):
            decode(FindCoordinatorRequest, 3, b"\x00\x00\x00")

    @pytest.mark.parametrize("cursor", [None, Cursor(topic_name="orders", partition_index=7)])
    def test_a_struct_may_be_null(self, cursor: Cursor | None) -> None:
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        assert decode(DescribeTopicPartitionsRequest, 0, joined(request, 0)) == request


class TestTaggedFields:
    def test_defaults_are_not_written(self) -> None:
        plain = joined(fetch_answer(), 16)
        assert joined(fetch_answer(current_leader=LeaderIdAndEpoch()), 16) == plain
        assert len(joined(fetch_answer(current_leader=LeaderIdAndEpoch(leader_id=1)), 16)) == len(plain) + 11

    def test_structs_come_back(self) -> None:
        leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=9)
        answer = decode(FetchResponse, 16, joined(fetch_answer(current_leader=leader), 16))
        assert answer.responses[0].partitions[0].current_leader == leader
        assert answer.responses[0].partitions[0].snapshot_id is None

    def test_unknown_ones_are_skipped(self) -> None:
        request = FindCoordinatorRequest(key="group", key_type=0)
        known = joined(request, 3)
        assert known[-1] == 0
        unknown = known[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\x01\x00"
        assert decode(FindCoordinatorRequest, 3, unknown) == request

    def test_unknown_ones_among_known_ones_are_skipped(self) -> None:
        known = joined(FetchRequest(cluster_id="abc"), 12)
        tag = b"\x00\x04\x04abc"
        assert known.endswith(b"\x01" + tag)
        mixed = known[: -len(tag) - 1] + b"\x03" + b"\x07\x01z" + tag + b"\x09\x00"
        assert decode(FetchRequest, 12, mixed) == FetchRequest(cluster_id="abc")

    @pytest.mark.parametrize(
        "tags",
        [
            b"\x01\x05\x7fabc",  # reaches past the end
            b"\x01\x00\x05\x04abc",  # announces one byte more than its value has
            b"\x01\x00\x03\x04abc",  # announces one byte less
            b"\xff\xff\xff\xff\x0f",  # four thousand million of them
            b"\x01",
        ],
    )
    def test_broken_ones_are_refused(self, tags: bytes) -> None:
        with pytest.raises(PeerError):
            decode(FetchRequest, 12, joined(FetchRequest(), 12)[:-1] + tags)


class TestRecords:
    @pytest.mark.parametrize("version", [8, 9, 13])
    def test_they_are_read_as_a_view_of_the_frame(self, version: int) -> None:
        partition = PartitionProduceData(index=1, records=b"batch")
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData(partition_data=[partition])])
        frame = b"header" + joined(request, version)
        records = decode(ProduceRequest, version, frame, 6).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is frame
        assert records == b"batch"

    @pytest.mark.parametrize("version", [4, 11, 12, 16])
    def test_they_are_written_without_a_copy(self, version: int) -> None:
        batch = memoryview(bytes(1000))
        chunks = encode(fetch_answer(records=batch), version)
        assert any(chunk is batch for chunk in chunks)
        assert b"".join(chunks) == joined(fetch_answer(records=bytes(1000)), version)

    @pytest.mark.parametrize("version", [4, 12])
    def test_several_buffers_are_written_as_one_field(self, version: int) -> None:
        pieces = [b"one", bytearray(b"two"), memoryview(b"three")]
        chunks = encode(fetch_answer(records=pieces), version)
        assert all(any(chunk is piece for chunk in chunks) for piece in pieces)
        assert b"".join(chunks) == joined(fetch_answer(records=b"onetwothree"), version)

    @pytest.mark.parametrize("nothing", [b"", [], (b"", b"")])
    def test_no_records_are_not_null(self, nothing: object) -> None:
        answer = decode(FetchResponse, 12, joined(fetch_answer(records=nothing), 12))
        assert answer.responses[0].partitions[0].records == b""
        answer = decode(FetchResponse, 12, joined(fetch_answer(records=None), 12))
        assert answer.responses[0].partitions[0].records is None


def test_bytes_after_the_message_are_ignored_as_librdkafka_sends_some() -> None:
    assert decode(FindCoordinatorRequest, 0, b"\x00\x01a!").key == "a"


class TestWhatIsRefused:
    def test_a_message_that_ends_early(self) -> None:
        whole = joined(FetchRequest(topics=[FetchTopic(topic="a", partitions=[FetchPartition()])]), 12)
        for size in range(len(whole)):
            with pytest.raises(PeerError):
                decode(FetchRequest, 12, whole[:size])

    @pytest.mark.parametrize(
        ("version", "data"), [(0, b"\x00\x05abc"), (0, b"\xff\xfeabc"), (3, b"\x06abc\x00")]
    )
    def test_a_length_that_the_rest_cannot_hold(self, version: int, data: bytes) -> None:
        with pytest.raises(PeerError, match=r"FindCoordinatorRequest\.key: a length of"):
            decode(FindCoordinatorRequest, version, data)

    def test_a_string_that_other_versions_could_not_tell(self) -> None:
        longest = FindCoordinatorRequest(key="x" * STRING_BYTES_MAX)
        assert decode(FindCoordinatorRequest, 3, joined(longest, 3)) == longest
        longer = joined(FindCoordinatorRequest(key="x" * (STRING_BYTES_MAX + 1)), 3)
        with pytest.raises(PeerError, match=r"FindCoordinatorRequest\.key: a string of 32768 bytes"):
            decode(FindCoordinatorRequest, 3, longer)

    def test_a_string_that_is_not_utf8(self) -> None:
        with pytest.raises(PeerError, match="UTF-8"):
            decode(FindCoordinatorRequest, 0, b"\x00\x02\xc3\x28")

    @pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00"])
    def test_a_count_that_the_rest_cannot_hold(self, count: bytes) -> None:
        with pytest.raises(PeerError, match=r"CreateTopicsRequest\.topics: a count of"):
            decode(CreateTopicsRequest, 2, count + bytes(100))

    @pytest.mark.parametrize("version", [2, 5])
    def test_more_elements_than_the_limit(self, version: int) -> None:
        topics = [CreatableTopic(name="a", assignments=[CreatableReplicaAssignment(broker_ids=[1, 2])])] * 10
        data = joined(CreateTopicsRequest(topics=topics), version)
        assert len(decode(CreateTopicsRequest, version, data, elements_max=40).topics) == 10
        with pytest.raises(PeerError, match="too many elements"):
            decode(CreateTopicsRequest, version, data, elements_max=39)

    def test_more_tagged_fields_than_the_limit(self) -> None:
        fetch, find = joined(FetchRequest(), 12), joined(FindCoordinatorRequest(), 3)
        assert decode(FetchRequest, 12, fetch[:-1] + b"\x0a" + b"\x09\x00" * 10, elements_max=10)
        assert decode(FindCoordinatorRequest, 3, find[:-1] + b"\x0a" + b"\x09\x00" * 10, elements_max=10)
        with pytest.raises(PeerError, match="too many"):
            decode(FetchRequest, 12, fetch[:-1] + b"\x0a" + b"\x09\x00" * 10, elements_max=9)
        with pytest.raises(PeerError, match="too many"):
            decode(FindCoordinatorRequest, 3, find[:-1] + b"\x0a" + b"\x09\x00" * 10, elements_max=9)

    @pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\x80" * 6])
    def test_a_varint_that_is_too_large(self, length: bytes) -> None:
        with pytest.raises(PeerError):
            decode(CreateTopicsRequest, 5, length + bytes(100))

    def test_a_number_that_does_not_fit_is_our_own_mistake(self) -> None:
        with pytest.raises(ValueError, match="CreateTopicsRequest v5"):
            encode(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=2**31)]), 5)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**28 - 1, 2**28, 2**32 - 1])
def test_a_varint_comes_back_with_the_position_after_it(value: int) -> None:
    assert read_varint(b"xy" + varint(value) + b"z", 2) == (value, 2 + len(varint(value)))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"])
def test_a_varint_has_at_most_32_bits_and_five_bytes(data: bytes) -> None:
    with pytest.raises(PeerError, match="varint"):
        read_varint(data, 0)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read(kind: type) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="größe", topic_id=bytes(range(16)))])
    assert decode(MetadataRequest, 12, kind(joined(request, 12))) == request
