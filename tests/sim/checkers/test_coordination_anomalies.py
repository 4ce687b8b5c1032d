"""What coordinators can break, planted in small histories, is found and called by its name; and nothing else is."""

from penstock.base.ids import TopicPartition
from penstock.sim.checkers import (
    AnomalyKind,
    Commit,
    CommittedRead,
    Copy,
    History,
    Holding,
    LogName,
    OperationOutcome,
    Poll,
    Seen,
    SentMessage,
    check_coordination,
)

GROUP = "billing"
FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


class Story:
    """One history in the making; every step happens after the one before."""

    def __init__(self) -> None:
        self.history = History()

    def commit(self, offset: int, outcome: OperationOutcome = OperationOutcome.OK) -> None:
        tick = self.history.tick
        self.history.commits.append(Commit(GROUP, FIRST, offset, tick(), tick(), outcome, "member"))

    def read(self, offset: int) -> None:
        tick = self.history.tick
        self.history.committed_reads.append(CommittedRead(GROUP, FIRST, offset, tick(), tick()))

    def hold(self, member: str, generation: int, *partitions: TopicPartition) -> None:
        self.history.holdings.append(Holding(GROUP, member, generation, partitions))

    def copy(self, source: int, copied: int) -> None:
        self.history.copies.append(Copy(GROUP, source, copied))

    def see(self, topic: str, *numbers: int) -> None:
        tick = self.history.tick
        seen = tuple(Seen(offset, SentMessage(number)) for offset, number in enumerate(numbers))
        log = LogName(topic, "id", 0)
        self.history.polls.append(
            Poll("reader", 0, log, 0, len(seen), seen, tick(), tick(), len(seen), committed_only=True)
        )

    @property
    def found(self) -> list[AnomalyKind]:
        return [anomaly.kind for anomaly in check_coordination(self.history)]


# ---- commits


def test_a_commit_that_is_read_back_is_fine() -> None:
    story = Story()
    story.read(-1)
    story.commit(3)
    story.read(3)
    story.commit(5)
    story.read(5)
    assert story.found == []


def test_a_commit_that_is_forgotten_is_lost() -> None:
    story = Story()
    story.commit(3)
    story.read(-1)
    assert story.found == [AnomalyKind.LOST_COMMIT]


def test_an_older_commit_in_place_of_the_last_one_is_a_loss() -> None:
    story = Story()
    story.commit(3)
    story.commit(5)
    story.read(3)
    assert story.found == [AnomalyKind.LOST_COMMIT]


def test_a_committed_offset_that_no_member_committed_is_an_anomaly() -> None:
    story = Story()
    story.commit(3)
    story.commit(9, OperationOutcome.FAILED)
    story.read(9)
    assert story.found == [AnomalyKind.LOST_COMMIT]
    story = Story()
    story.read(9)
    assert story.found == [AnomalyKind.LOST_COMMIT]


def test_a_commit_with_unknown_outcome_may_take_effect_at_any_time_or_never() -> None:
    story = Story()
    story.commit(3, OperationOutcome.UNKNOWN)
    story.read(-1)
    story.commit(5)
    story.read(5)
    story.read(3)
    assert story.found == []


def test_commits_at_the_same_time_may_count_in_any_order() -> None:
    story = Story()
    story.history.commits += [
        Commit(GROUP, FIRST, 3, 1, 4, OperationOutcome.OK, "member"),
        Commit(GROUP, FIRST, 5, 2, 3, OperationOutcome.OK, "member"),
    ]
    story.history.committed_reads.append(CommittedRead(GROUP, FIRST, 3, 5, 6))
    assert story.found == []


def test_a_commit_of_a_lower_offset_is_an_anomaly() -> None:
    story = Story()
    story.commit(5)
    story.commit(3)
    assert story.found == [AnomalyKind.BACKWARD_COMMIT]


def test_a_group_may_go_back_where_a_lost_commit_may_have_come_late() -> None:
    story = Story()
    story.commit(2, OperationOutcome.UNKNOWN)
    story.commit(5)
    story.commit(3)
    assert story.found == []


# ---- partitions


def test_a_partition_of_two_members_in_one_generation_is_an_anomaly() -> None:
    story = Story()
    story.hold("one", 1, FIRST, SECOND)
    story.hold("one", 2, FIRST)
    story.hold("other", 2, SECOND)
    assert story.found == []
    story.hold("other", 2, FIRST, SECOND)
    assert story.found == [AnomalyKind.SHARED_PARTITION]


# ---- copies


def test_one_committed_copy_of_all_that_the_group_has_passed_is_as_it_should_be() -> None:
    story = Story()
    story.see("orders", 1, 2, 3)
    story.copy(1, 11)
    story.copy(2, 12)
    story.copy(2, 22)  # of a transaction that came to nothing
    story.see("copies", 11, 22)
    story.commit(2)
    story.read(2)
    assert story.found == []


def test_a_message_with_two_committed_copies_is_an_anomaly() -> None:
    story = Story()
    story.see("orders", 1)
    story.copy(1, 11)
    story.copy(1, 12)
    story.see("copies", 11, 12)
    assert story.found == [AnomalyKind.COPIED_TWICE]


def test_a_message_before_the_committed_offset_without_a_copy_is_an_anomaly() -> None:
    story = Story()
    story.see("orders", 1, 2)
    story.copy(1, 11)
    story.see("copies", 11)
    story.commit(2)
    story.read(2)
    assert story.found == [AnomalyKind.NOT_COPIED]
