"""Internal records: Kafka's bytes, read and written, and what is no record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import PeerError
from penstock.records.internal import group_records, group_shapes, transaction_records
from penstock.records.internal.fast_encoders import encode_offset, encode_transaction
from penstock.records.internal.group_shapes import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.records.internal.record import InternalRecord, RecordKey, RecordValue
from penstock.records.internal.transaction_shapes import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tests.wire.shapes import any_of

OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000002")  # group g, topic t, partition 2


def types() -> list[tuple[type[RecordKey], type[RecordValue]]]:
    keys = [
        shape
        for shape in vars(group_shapes).values()
        if isinstance(shape, type) and issubclass(shape, RecordKey) and shape is not RecordKey
    ]
    return [(key, getattr(group_shapes, key.__name__.removesuffix("Key") + "Value")) for key in keys]


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    key, value = group_records.encode(
        InternalRecord(
            OffsetCommitKey(group="g", topic="t", partition=2),
            OffsetCommitValue(
                offset=5, leader_epoch=1, metadata="m", commit_timestamp=7, topic_id=bytes(range(16))
            ),
        )
    )
    assert key == OFFSET_KEY
    assert value == bytes.fromhex(
        "0004 0000000000000005 00000001 02 6d 0000000000000007 01 00 10 000102030405060708090a0b0c0d0e0f"
    )


def test_an_offset_with_an_expiry_of_its_own_is_written_in_the_version_that_has_one() -> None:
    record = InternalRecord(
        OffsetCommitKey(group="g", topic="t", partition=2),
        OffsetCommitValue(offset=5, metadata="", commit_timestamp=7, expire_timestamp=9),
    )
    _, value = group_records.encode(record)
    assert value == bytes.fromhex("0001 0000000000000005 0000 0000000000000007 0000000000000009")
    assert group_records.decode(OFFSET_KEY, value) == record


def test_a_classic_group_is_written_in_version_3() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=b"s",
        assignment=b"a",
    )
    record = InternalRecord(
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="m",
            current_state_timestamp=4,
            members=[member],
        ),
    )
    key, value = group_records.encode(record)
    assert key == bytes.fromhex("0002 0001 67")
    assert value is not None
    assert value[:2] == b"\0\3"
    assert group_records.decode(key, value) == record


def test_a_transaction_is_written_in_version_1() -> None:
    record = InternalRecord(
        TransactionLogKey(transactional_id="t"),
        TransactionLogValue(
            producer_id=1,
            previous_producer_id=2,
            next_producer_id=-1,
            producer_epoch=3,
            next_producer_epoch=4,
            transaction_timeout_ms=5,
            transaction_status=1,
            transaction_partitions=[PartitionsSchema(topic="x", partition_ids=[0, 1])],
            transaction_last_update_timestamp_ms=6,
            transaction_start_timestamp_ms=7,
            client_transaction_version=2,
        ),
    )
    key, value = transaction_records.encode(record)
    assert key == bytes.fromhex("0000 0001 74")
    assert value is not None
    assert value[:2] == b"\0\1"
    assert transaction_records.decode(key, value) == record


def test_at_level_0_transactions_are_written_in_version_0_unless_that_would_lose_something() -> None:
    level = 0
    records = transaction_records.transaction_records(lambda: level)
    partitions = [PartitionsSchema(topic="x", partition_ids=[0, 1])]
    key = TransactionLogKey(transactional_id="t")
    plain = InternalRecord(
        key, TransactionLogValue(producer_id=1, producer_epoch=3, transaction_partitions=partitions)
    )

    def version(record: InternalRecord) -> int:
        encoded_key, value = records.encode(record)
        assert value is not None
        assert records.decode(encoded_key, value) == record
        return int.from_bytes(value[:2])

    assert version(plain) == 0
    assert records.encode(InternalRecord(key, None)) == (bytes.fromhex("0000 0001 74"), None)
    for name in (
        "client_transaction_version",
        "next_producer_epoch",
        "next_producer_id",
        "previous_producer_id",
    ):
        assert version(InternalRecord(key, TransactionLogValue(producer_id=1, **{name: 4}))) == 1
    level = 1
    assert version(plain) == 1


def test_a_known_record_in_a_version_from_the_future_is_refused_with_what_to_do() -> None:
    with pytest.raises(PeerError, match=r"OffsetCommitValue of version 99 .*newer program.*install"):
        group_records.decode(OFFSET_KEY, b"\0\x63 whatever")


def test_no_value_is_a_tombstone() -> None:
    record = InternalRecord(OffsetCommitKey(group="g", topic="t", partition=2), None)
    assert group_records.encode(record) == (OFFSET_KEY, None)
    assert group_records.decode(OFFSET_KEY, None) == record


def test_the_oldest_form_of_an_offset_is_read() -> None:
    key = b"\0\0" + OFFSET_KEY[2:]
    value = bytes.fromhex("0000 0000000000000005 0001 6d 0000000000000007")
    record = group_records.decode(key, value)
    assert record is not None
    assert record.key == LegacyOffsetCommitKey(group="g", topic="t", partition=2)


@pytest.mark.parametrize("type_", [9, 15, 17, 99, 32767])
def test_an_unknown_record_type_is_decoded_as_none(type_: int) -> None:
    assert group_records.decode(type_.to_bytes(2, "big") + b"whatever", b"\0\0whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0\1\0", None),
        (OFFSET_KEY[:-1], None),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, b"\0\4"),
        (OFFSET_KEY, b"\0\x09" + bytes(50)),
    ],
)
def test_what_is_no_record_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(PeerError):
        group_records.decode(key, value)


def test_a_value_under_the_wrong_key_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="GroupMetadataValue under a OffsetCommitKey"):
        group_records.encode(InternalRecord(OffsetCommitKey(), GroupMetadataValue()))


@pytest.mark.parametrize(("key_shape", "value_shape"), types(), ids=lambda shape: shape.__name__)
def test_every_record_is_read_as_it_was_written(
    key_shape: type[RecordKey], value_shape: type[RecordValue]
) -> None:
    version = group_records.GROUP_RECORDS.version_of(
        value_shape(), group_records.GROUP_RECORDS.type_of(key_shape.TYPE)
    )

    @settings(max_examples=30)
    @given(st.builds(InternalRecord, any_of(key_shape, 0), any_of(value_shape, version)))
    def written_and_read(record: InternalRecord) -> None:
        assert group_records.decode(*group_records.encode(record)) == record

    written_and_read()


SHORT_AND_LONG = st.one_of(st.text(max_size=8), st.integers(120, 130).map("x".__mul__))
OFFSETS = st.builds(
    InternalRecord,
    st.builds(
        OffsetCommitKey, group=SHORT_AND_LONG, topic=SHORT_AND_LONG, partition=st.integers(0, 2**31 - 1)
    ),
    st.builds(
        OffsetCommitValue,
        offset=st.integers(-1, 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=SHORT_AND_LONG,
        commit_timestamp=st.integers(-1, 2**63 - 1),
        expire_timestamp=st.just(-1) | st.integers(-1, 2**63 - 1),
        topic_id=st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
    ),
)
PRODUCER_IDS = st.just(-1) | st.integers(-1, 2**63 - 1)
EPOCHS = st.just(-1) | st.integers(-1, 2**15 - 1)
TRANSACTIONS = st.builds(
    InternalRecord,
    st.builds(TransactionLogKey, transactional_id=SHORT_AND_LONG),
    st.builds(
        TransactionLogValue,
        producer_id=PRODUCER_IDS,
        previous_producer_id=PRODUCER_IDS,
        next_producer_id=PRODUCER_IDS,
        producer_epoch=EPOCHS,
        next_producer_epoch=EPOCHS,
        transaction_timeout_ms=st.integers(0, 2**31 - 1),
        transaction_status=st.integers(0, 7),
        transaction_partitions=st.none()
        | st.lists(
            st.builds(
                PartitionsSchema,
                topic=SHORT_AND_LONG,
                partition_ids=st.one_of(
                    st.lists(st.integers(0, 2**31 - 1), max_size=3),
                    st.integers(120, 130).map(range).map(list),
                ),
            ),
            max_size=3,
        ),
        transaction_last_update_timestamp_ms=st.integers(-1, 2**63 - 1),
        transaction_start_timestamp_ms=st.integers(-1, 2**63 - 1),
        client_transaction_version=st.integers(0, 2),
    ),
)


@given(OFFSETS)
def test_an_offset_is_written_by_straight_line_code_as_by_its_schema(record: InternalRecord) -> None:
    assert group_records.encode(record) == group_records.GROUP_RECORDS.encode_by_schema(record)


@given(TRANSACTIONS)
def test_a_transaction_is_written_by_straight_line_code_as_by_its_schema(record: InternalRecord) -> None:
    formats = transaction_records.TRANSACTION_RECORDS
    assert formats.encode(record) == formats.encode_by_schema(record)


def test_what_is_written_often_is_seldom_left_to_the_schema() -> None:
    offset = OffsetCommitValue(offset=1, metadata="m" * 126, commit_timestamp=7, topic_id=bytes(range(16)))
    assert encode_offset(OffsetCommitKey(group="g", topic="t", partition=2), offset) is not None
    topics = [PartitionsSchema(topic="t" * 126, partition_ids=list(range(126)))]
    value = TransactionLogValue(producer_id=1, producer_epoch=2, transaction_partitions=topics)
    assert encode_transaction(TransactionLogKey(transactional_id="x" * 200), value) is not None
