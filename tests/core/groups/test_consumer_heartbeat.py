"""ConsumerGroupHeartbeat: which members may join, error codes and messages, and what a response contains."""

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.consumer_settings import GroupTimes
from penstock.core.groups.partition_sets import NOTHING
from penstock.core.groups.requests import OffsetToCommit
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics, settle


@pytest.fixture
def shard():
    return DrivenConsumers()


# What Apache Kafka 4.3.1 answered to the same requests.
NONSENSE = {
    "no group": ({"group_id": ""}, "GroupId can't be empty."),
    "no member": ({"member_id": ""}, "MemberId can't be empty."),
    "empty instance": ({"instance_id": ""}, "InstanceId can't be empty."),
    "empty rack": ({"rack_id": ""}, "RackId can't be empty."),
    "no timeout": ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    "nothing about partitions": ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
    "partitions": ({"owned": {bytes(16): {1}}}, "TopicPartitions must be empty when (re-)joining."),
    "no subscription": (
        {"subscribed_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "away without instance": ({"epoch": -2}, "InstanceId can't be null."),
    "epoch -3": ({"epoch": -3}, "MemberEpoch is invalid."),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_refused_in_kafkas_words_and_changes_nothing(shard, case):
    fields, words = NONSENSE[case]
    fields = {
        "member_id": "one",
        "epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "owned": NOTHING,
        "subscribed_names": ["orders"],
    } | fields
    assert shard.beat(**fields) == Refusal(ErrorCode.INVALID_REQUEST, words)
    assert shard.log == []


def test_an_unknown_assignor_is_refused(shard):
    answer = shard.enter("one", server_assignor="fair")
    words = "ServerAssignor fair is not supported. Supported assignors: uniform, range."
    assert answer == Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, words)


def test_a_broken_expression_is_refused_in_kafkas_words(shard):
    answer = shard.enter("one", subscribed_regex="a**", subscribed_names=None)
    words = (
        "SubscribedTopicRegex `a**` is not a valid regular expression: invalid nested repetition operator."
    )
    assert answer == Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, words)
    assert shard.log == []


def test_a_group_that_is_not_there_is_not_found(shard):
    assert shard.beat("one", 1) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group readers not found.")
    assert shard.beat("one", -1) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group readers not found.")


def test_the_first_member_gets_everything_in_epoch_2_with_its_first_heartbeat(shard):
    answer = shard.enter("one")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("one", 2, 5_000)
    assert answer.assignment == shard.topics.partitions(orders=[0, 1, 2, 3])
    assert shard.group.state_name == "Stable"


def test_a_member_without_an_id_is_given_one_in_version_0(shard):
    answer = shard.enter("", version=0, new_member_id="fresh")
    assert answer.member_id == "fresh"
    assert "fresh" in shard.group.members


def test_a_member_that_subscribes_to_nothing_is_in_epoch_1_and_gets_nothing(shard):
    answer = shard.enter("one", subscribed_names=())
    assert (answer.member_epoch, answer.assignment) == (1, NOTHING)


def test_a_heartbeat_without_news_is_answered_without_an_assignment_and_writes_nothing(shard):
    shard.enter("one")
    written = len(shard.log)
    assert shard.beat("one", 2).assignment is None
    assert len(shard.log) == written


def test_a_full_heartbeat_is_answered_in_full(shard):
    everything = shard.enter("one").assignment
    answer = shard.beat("one", 2, rebalance_timeout_ms=60_000, subscribed_names=["orders"], owned=everything)
    assert answer.assignment == everything


def test_a_member_may_join_again_with_epoch_0(shard):
    first = shard.enter("one")
    assert shard.enter("one") == first


def test_a_heartbeat_of_an_unknown_member_is_refused(shard):
    shard.enter("one")
    refusal = Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "Member two is not a member of group readers.")
    assert shard.beat("two", 2) == refusal
    assert shard.beat("two", -1) == refusal


@pytest.mark.parametrize(("epoch", "compared"), [(99, "greater"), (1, "smaller")])
def test_a_member_with_another_epoch_is_fenced(shard, epoch, compared):
    shard.enter("one")
    assert shard.beat("one", epoch) == Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin.",
    )


def test_a_member_whose_answer_got_lost_may_say_the_epoch_before(shard):
    shard.enter("one")
    shard.beat("one", 2, subscribed_names=["orders", "more"])  # its answer, with epoch 3, is lost
    assert shard.group.members["one"].epoch == 3
    owned = shard.topics.partitions(orders=[0, 1])
    assert shard.beat("one", 2, owned=owned).member_epoch == 3
    not_its_own = shard.topics.partitions(orders=[7])
    assert shard.beat("one", 2, owned=not_its_own).code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_full_group_refuses_another_member_and_keeps_those_it_has():
    shard = DrivenConsumers(members_max=1)
    shard.enter("one")
    assert shard.enter("two") == Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 1 members.",
    )
    assert shard.enter("one").member_epoch == 2


def test_a_member_that_leaves_is_gone_and_the_others_share_what_it_had(shard):
    one, two = Consumer(shard, "one"), Consumer(shard, "two")
    one.enter()
    two.enter()
    settle(one, two)
    answer = one.leave()
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("one", -1, None)
    two.beat()
    assert two.owned == shard.topics.partitions(orders=[0, 1, 2, 3])


def test_a_group_whose_last_member_left_is_empty_and_may_be_used_again(shard):
    shard.enter("one")
    shard.beat("one", -1)
    assert shard.group.state_name == "Empty"
    assert shard.enter("two").assignment == shard.topics.partitions(orders=[0, 1, 2, 3])


def test_silence_for_a_session_ends_a_membership(shard):
    shard.enter("one")
    shard.pass_time(44_000)
    shard.beat("one", 2)
    shard.pass_time(44_999)
    assert "one" in shard.group.members
    shard.pass_time(1)
    assert "one" not in shard.group.members


def test_session_timeout_and_heartbeat_interval_are_the_groups_own():
    shard = DrivenConsumers(times=GroupTimes(session_timeout_ms=50_000, heartbeat_interval_ms=7_000))
    assert shard.enter("one").heartbeat_interval_ms == 7_000
    shard.pass_time(49_999)
    assert "one" in shard.group.members
    shard.pass_time(1)
    assert "one" not in shard.group.members


def test_sessions_start_again_after_a_fail_over(shard):
    shard.enter("one")
    shard.pass_time(40_000)
    shard.fail_over()
    shard.pass_time(44_999)
    assert shard.beat("one", 2).member_epoch == 2


def test_most_votes_choose_the_assignor():
    shard = DrivenConsumers(KnownTopics(orders=3, invoices=3))
    for member_id, assignor in (("a", "range"), ("b", "range"), ("c", "uniform")):
        shard.enter(member_id, "orders", "invoices", server_assignor=assignor)
    assert shard.describe_consumers().assignor == "range"
    assert shard.group.target_of("a") == shard.topics.partitions(orders=[0], invoices=[0])


def test_static_members_are_answered_as_by_kafka(shard):
    assert shard.enter("s1", instance_id="i").member_epoch == 2
    for other in ("s1", "s2"):
        assert shard.enter(other, instance_id="i") == Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {other} with instance id i cannot join the group because the instance id is owned by "
            "s1 member.",
        )
    fenced = Refusal(
        ErrorCode.FENCED_INSTANCE_ID, "Static member s2 with instance id i was fenced by member s1."
    )
    assert shard.beat("s2", 2, instance_id="i") == fenced
    assert shard.beat("s2", -2, instance_id="i") == fenced
    unknown = Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "Instance id j is unknown.")
    assert shard.beat("s1", 2, instance_id="j") == unknown
    assert shard.beat("s1", -1, instance_id="j") == unknown


def test_a_static_member_that_comes_back_gets_its_partitions_and_the_group_epoch_stays(shard):
    one, two = Consumer(shard, "s1", instance_id="i"), Consumer(shard, "two")
    one.enter()
    two.enter()
    settle(one, two)
    had, epoch = one.owned, shard.group.epoch
    assert one.go_away().member_epoch == -2
    assert two.beat().assignment is None
    back = Consumer(shard, "s3", instance_id="i")
    assert back.enter().assignment == had
    assert two.beat().assignment is None
    assert shard.group.epoch == epoch
    assert set(shard.group.members) == {"s3", "two"}
    assert shard.group.state_name == "Stable"


def test_a_static_member_that_is_away_too_long_is_gone(shard):
    one, two = Consumer(shard, "s1", instance_id="i"), Consumer(shard, "two")
    one.enter()
    two.enter()
    settle(one, two)
    one.go_away()
    for _ in range(3):
        shard.pass_time(20_000)
        two.beat()
    assert two.owned == shard.topics.partitions(orders=[0, 1, 2, 3])


def test_describing_shows_what_members_have_and_what_they_shall_have(shard):
    shard.enter("a")
    shard.enter("b", rack_id="r")
    shard.beat("a", 2)
    described = shard.describe_consumers()
    assert (described.state, described.epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    a, b = described.members
    # What a member has yet to give up is still shown as its own.
    assert a.assignment == shard.topics.partitions(orders=[0, 1, 2, 3])
    assert a.target == shard.topics.partitions(orders=[0, 1])
    assert (b.member_epoch, b.rack_id, b.assignment, b.is_classic) == (3, "r", NOTHING, False)
    assert b.target == shard.topics.partitions(orders=[2, 3])


def test_describing_what_is_no_consumer_group_is_refused(shard):
    assert shard.describe_consumers("").code is ErrorCode.INVALID_GROUP_ID
    nothing = Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group readers not found.")
    assert shard.describe_consumers() == nothing
    shard.join()
    classic = Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group readers is not a consumer group.")
    assert shard.describe_consumers() == classic


def test_commits_and_fetches_of_offsets_check_the_member_and_its_epoch(shard):
    shard.enter("one")
    position = {("orders", 0): 7}
    assert shard.commit(position, member_id="one", generation=2) == (ErrorCode.NONE,)
    refused = shard.commit(position, member_id="one", generation=1)
    assert refused.code is ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit(position, member_id="two", generation=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    too_old = shard.commit(position, member_id="one", generation=2, version=8)
    assert too_old.code is ErrorCode.UNSUPPORTED_VERSION
    assert shard.fetch(member_id="one", member_epoch=1).code is ErrorCode.STALE_MEMBER_EPOCH
    assert shard.fetch(member_id="two", member_epoch=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.fetch(member_id="one", member_epoch=2)[0].offset == 7


def test_a_member_that_has_not_heard_of_its_new_epoch_commits_what_it_keeps(shard):
    one, two = Consumer(shard, "one"), Consumer(shard, "two")
    one.enter()
    two.enter()
    settle(one, two)
    assert (one.epoch, one.owned) == (3, shard.topics.partitions(orders=[0, 1]))
    topic_id = shard.topics.named("orders").topic_id

    def commit(epoch, *partitions, member_id="one", topic_id=topic_id):
        offsets = {
            ("orders", each): OffsetToCommit("orders", each, 7, topic_id=topic_id) for each in partitions
        }
        answer = shard.commit(offsets, member_id=member_id, generation=epoch)
        return answer.code if isinstance(answer, Refusal) else set(answer)

    assert commit(2, 0, 1) == {ErrorCode.NONE}
    assert commit(1, 0) is ErrorCode.STALE_MEMBER_EPOCH, "before they were its own"
    assert commit(4, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(2, 0, 2) is ErrorCode.STALE_MEMBER_EPOCH, "one of them is another's now"
    assert commit(2, 2, member_id="two") is ErrorCode.STALE_MEMBER_EPOCH, "it was another's then"
    assert commit(2, 0, topic_id=bytes(16)) is ErrorCode.STALE_MEMBER_EPOCH, "of a topic of that name"
    shard.fail_over()
    assert commit(2, 0, 1) == {ErrorCode.NONE}


def test_a_deleted_group_leaves_nothing_behind(shard):
    shard.enter("one", subscribed_regex="ord.*")
    assert shard.delete_group().code is ErrorCode.NON_EMPTY_GROUP
    shard.beat("one", -1)
    shard.delete_group()
    shard.fail_over()
    assert shard.shard.groups == {}
