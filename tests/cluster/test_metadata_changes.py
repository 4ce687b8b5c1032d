"""A change on its way: as operations on a store, and as a delta that another broker makes a change of again."""

import json

from penstock.base.features import RANGES_BEFORE, LevelRange
from penstock.base.ids import TopicId
from penstock.cluster.features import Features
from penstock.cluster.metadata import (
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    Topic,
    decode_partition,
    encode_partition,
)
from penstock.cluster.metadata_changes import Change, difference
from penstock.cluster.topic_deletions import Deletion, Deletions, surplus
from penstock.world.store import Create, Delete, Set

STATE = PartitionState(1, 0, (1, 2), (1, 2), 0)


def topic(name: str, *partitions: PartitionState, number: int = 1, **configs: str) -> Topic:
    return Topic(name, TopicId(bytes([number]) * 16), partitions or (STATE, STATE), configs)


def image(*topics: Topic) -> MetadataImage:
    made = MetadataImage("cluster")
    for each in topics:
        made.apply_topic(each)
    return made


def test_a_delta_has_everything_that_a_broker_needs():
    known = image(topic("changed", a="1"), topic("gone", number=2))
    changed = topic("changed", STATE, STATE._replace(leader=2, leader_epoch=1), STATE, a="2")
    change = Change(
        topics={"changed": changed, "new": topic("new", number=3)},
        deleted={"gone": Deletion(TopicId(b"\2" * 16), 7)},
        brokers={4: BrokerRegistration(4, "rack", {"PLAINTEXT": ("host", 9092)}, epoch=7, fenced=True)},
        broker_configs={"": {"x": "y"}},
        group_configs={"g": {}},
        features=Features({"transaction.version": 1}, epoch=3),
    )
    assert Change.decode(change.encode(known), known) == change


def test_a_delta_holds_only_the_partitions_that_changed():
    many = topic("many", *[STATE] * 3000)
    after = topic("many", *[STATE] * 2999, STATE._replace(leader=2))
    assert len(Change(topics={"many": after}).encode(image(many))) < 200


def test_a_delta_has_adding_and_removing_replicas():
    exchanged = topic("exchanged", STATE._replace(replicas=(1, 2, 3), adding=(3,), removing=(2,)))
    change = Change(topics={"exchanged": exchanged})
    assert Change.decode(change.encode(image()), image()) == change
    assert Topic.decode("exchanged", exchanged.encode()) == exchanged


def test_a_delta_has_the_elr_and_older_records_without_one_have_an_empty_elr():
    small = topic("small", STATE._replace(isr=(1,), elr=(2,)))
    change = Change(topics={"small": small})
    assert Change.decode(change.encode(image()), image()) == change
    assert Topic.decode("small", small.encode()) == small
    assert decode_partition([1, 5, [1, 2], [1], 7]) == PartitionState(1, 5, (1, 2), (1,), 7)
    exchanging = PartitionState(1, 5, (1, 2), (1,), 7, adding=(2,), removing=())
    assert decode_partition([1, 5, [1, 2], [1], 7, [2], []]) == exchanging
    assert decode_partition(encode_partition(exchanging)) == exchanging


def test_a_recreated_topic_is_not_mistaken_for_the_old_one():
    known = image(topic("again", a="1"))
    deletion = Deletion(TopicId(b"\1" * 16), 0)
    change = Change(topics={"again": topic("again", STATE, number=9)}, deleted={"again": deletion})
    assert Change.decode(change.encode(known), known) == change
    assert [type(each) for each in change.operations(known)] == [Delete, Create, Create]


def test_features_are_created_where_the_metadata_had_none_and_missed_ones_are_found():
    change = Change(features=Features({"transaction.version": 1}, epoch=1))
    assert [type(each) for each in change.operations(image())] == [Create]
    known = image()
    known.apply_features(Features(epoch=1))
    assert [type(each) for each in change.operations(known)] == [Set]
    after = image()
    after.apply_features(Features({"transaction.version": 1}, epoch=2))
    assert difference(known, after) == Change(features=after.features)
    assert difference(known, known).is_empty


def test_a_registration_without_features_supports_the_levels_before_features():
    document = BrokerRegistration(4, None, {}).document()
    del document["features"]
    assert BrokerRegistration.of_document(document).features == RANGES_BEFORE
    able = BrokerRegistration(4, None, {}, features={"transaction.version": LevelRange(0, 2)})
    assert BrokerRegistration.decode(able.encode()) == able


def test_existing_nodes_are_set_and_new_ones_created():
    known = image(topic("known"))
    change = Change(topics={"known": topic("known", STATE), "new": topic("new")}, group_configs={"g": {}})
    assert [type(each) for each in change.operations(known)] == [Set, Create]


def test_the_difference_of_two_images_makes_the_one_the_other():
    before = image(topic("same"), topic("gone", number=2), topic("again", number=3))
    before.apply_group_configs("g", {"a": "1"})
    after = image(topic("same"), topic("again", number=4), topic("new", number=5))
    after.apply_broker(BrokerRegistration(1, None, {}))
    after.apply_broker_configs("1", {"b": "2"})
    after.deletions.add([Deletion(TopicId(b"\2" * 16), 5)])
    change = difference(before, after)
    assert sorted(change.topics) == ["again", "new"]
    assert change.deleted == {
        "again": Deletion(TopicId(b"\3" * 16), None),
        "gone": Deletion(TopicId(b"\2" * 16), 5),
    }
    assert (dict(change.group_configs), list(change.brokers)) == ({"g": {}}, [1])
    assert difference(after, after).is_empty


def test_a_deletion_is_recorded_by_the_topics_id_together_with_it():
    known = image(topic("gone"))
    known.deletions.add([Deletion(TopicId(b"\7" * 16), 41)])
    deletion = known.deletions.next(TopicId(b"\1" * 16))
    operations = Change(deleted={"gone": deletion}).operations(known)
    assert operations == [
        Delete("/topics/gone"),
        Create("/deletions/0000000042.AQEBAQEBAQEBAQEBAQEBAQ"),
    ]
    assert Deletion.of_node("0000000042.AQEBAQEBAQEBAQEBAQEBAQ") == deletion


def test_a_deletion_by_a_version_without_deletion_records_is_not_recorded():
    known = image(topic("gone"))
    told = json.dumps({"version": 1, "deleted": ["gone", "never there"]}).encode()
    assert Change.decode(told, known).deleted == {"gone": Deletion(TopicId(b"\1" * 16), None)}


def test_a_version_without_deletion_records_gets_the_names_of_deleted_topics():
    delta = Change(deleted={"gone": Deletion(TopicId(b"\1" * 16), 3)}).encode(image())
    assert tuple(json.loads(delta)["deleted"]) == ("gone",)


def test_no_more_deletions_are_remembered_than_are_kept():
    deletions = Deletions()
    ids = [TopicId(number.to_bytes(16, "big")) for number in range(12_000)]
    for number, topic_id in enumerate(ids):
        deletions.add([Deletion(topic_id, number)])
    assert ids[-1] in deletions
    assert ids[-10_000] in deletions
    assert ids[0] not in deletions
    assert len(deletions) <= 10_500
    nodes = [Deletion(topic_id, number).node for number, topic_id in enumerate(ids)]
    assert surplus(reversed(nodes)) == nodes[:2_000]
    assert surplus(nodes[:5]) == []


def test_an_invalid_deletion_record_is_ignored():
    assert Deletion.of_node("0000000042") is None
    assert Deletion.of_node("x.AQEBAQEBAQEBAQEBAQEBAQ") is None
    assert Deletion.of_node("1.short") is None
