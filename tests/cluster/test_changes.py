"""A change on its way: as operations on a store, and as a delta that another broker makes a change of again."""

from penstock.base.ids import TopicId
from penstock.cluster.changes import Change, difference
from penstock.cluster.metadata import Broker, MetadataImage, PartitionState, Topic
from penstock.world.store import Create, Delete, Set

STATE = PartitionState(1, 0, (1, 2), (1, 2), 0)


def topic(name: str, *partitions: PartitionState, number: int = 1, **configs: str) -> Topic:
    return Topic(name, TopicId(bytes([number]) * 16), partitions or (STATE, STATE), configs)


def image(*topics: Topic) -> MetadataImage:
    made = MetadataImage("cluster")
    for each in topics:
        made.apply_topic(each)
    return made


def test_a_delta_tells_a_broker_all_that_it_needs():
    known = image(topic("changed", a="1"), topic("gone", number=2))
    changed = topic("changed", STATE, STATE._replace(leader=2, leader_epoch=1), STATE, a="2")
    change = Change(
        topics={"changed": changed, "new": topic("new", number=3)},
        deleted=("gone",),
        brokers={4: Broker(4, "rack", {"PLAINTEXT": ("host", 9092)}, epoch=7, fenced=True)},
        broker_configs={"": {"x": "y"}},
        group_configs={"g": {}},
    )
    assert Change.decode(change.encode(known), known) == change


def test_a_delta_holds_only_the_partitions_that_changed():
    many = topic("many", *[STATE] * 3000)
    after = topic("many", *[STATE] * 2999, STATE._replace(leader=2))
    assert len(Change(topics={"many": after}).encode(image(many))) < 200


def test_replicas_that_are_being_exchanged_are_told_too():
    exchanged = topic("exchanged", STATE._replace(replicas=(1, 2, 3), adding=(3,), removing=(2,)))
    change = Change(topics={"exchanged": exchanged})
    assert Change.decode(change.encode(image()), image()) == change
    assert Topic.decode("exchanged", exchanged.encode()) == exchanged


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one():
    known = image(topic("again", a="1"))
    change = Change(topics={"again": topic("again", STATE, number=9)}, deleted=("again",))
    assert Change.decode(change.encode(known), known) == change
    assert [type(each) for each in change.operations(known)] == [Delete, Create]


def test_what_is_known_is_set_and_what_is_new_created():
    known = image(topic("known"))
    change = Change(topics={"known": topic("known", STATE), "new": topic("new")}, group_configs={"g": {}})
    assert [type(each) for each in change.operations(known)] == [Set, Create]


def test_the_difference_of_two_images_makes_the_one_the_other():
    before = image(topic("same"), topic("gone", number=2), topic("again", number=3))
    before.apply_group_configs("g", {"a": "1"})
    after = image(topic("same"), topic("again", number=4), topic("new", number=5))
    after.apply_broker(Broker(1, None, {}))
    after.apply_broker_configs("1", {"b": "2"})
    change = difference(before, after)
    assert sorted(change.topics) == ["again", "new"]
    assert sorted(change.deleted) == ["again", "gone"]
    assert (dict(change.group_configs), list(change.brokers)) == ({"g": {}}, [1])
    assert difference(after, after).is_empty
