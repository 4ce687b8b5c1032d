"""Which feature levels may be finalised, and which brokers may join then."""

import pytest

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.features import LEVELS_BEFORE, SUPPORTED, LevelRange, are_limits, lowered
from penstock.cluster.features import (
    Features,
    FeatureUpdate,
    UpgradeType,
    first_features,
    refusal_to_join,
    unsupported,
    updated,
)

UPGRADE, SAFE, UNSAFE = UpgradeType
NEW = {"a": LevelRange(0, 2), "b": LevelRange(1, 3)}
OLD = {"a": LevelRange(0, 1)}
NOW = Features({"a": 1, "b": 2}, epoch=7)


def refused(updates: dict[str, FeatureUpdate], brokers: dict[int, dict[str, LevelRange]]) -> str:
    outcome = updated(NOW, updates, brokers)
    assert isinstance(outcome, Refusal)
    assert outcome.code is ErrorCode.INVALID_UPDATE_VERSION
    assert outcome.message is not None
    return outcome.message


def test_levels_are_raised_and_lowered_together_with_the_next_epoch():
    updates = {"a": FeatureUpdate(2, UPGRADE), "b": FeatureUpdate(1, SAFE)}
    assert updated(NOW, updates, {1: NEW, 2: NEW}) == Features({"a": 2, "b": 1}, epoch=8)
    assert updated(NOW, {"b": FeatureUpdate(1, UNSAFE)}, {1: NEW}) == Features({"a": 1, "b": 1}, epoch=8)


def test_an_update_to_the_present_level_changes_nothing():
    for kind in UpgradeType:
        assert updated(NOW, {"a": FeatureUpdate(1, kind)}, {1: NEW}) is NOW
    assert updated(NOW, {}, {1: NEW}) is NOW


def test_the_error_names_every_broker_that_does_not_support_the_level():
    message = refused({"a": FeatureUpdate(2, UPGRADE)}, {1: NEW, 2: OLD, 3: OLD})
    assert message.endswith(
        "Invalid update version 2 for feature a. "
        "Broker 2 only supports versions 0-1; Broker 3 only supports versions 0-1."
    )
    message = refused({"b": FeatureUpdate(3, UPGRADE)}, {1: NEW, 2: OLD})
    assert message.endswith("Broker 2 does not support this feature.")
    message = refused({"b": FeatureUpdate(0, SAFE)}, {1: NEW})
    assert message.endswith("Broker 1 only supports versions 1-3.")


@pytest.mark.parametrize(
    ("level", "kind", "problem"),
    [
        (0, UPGRADE, "Can't downgrade the version of this feature without"),
        (2, SAFE, "Can't downgrade to a newer version."),
        (-1, SAFE, "cannot be less than 0"),
        (2, 0, "does not support the given upgrade type"),
        (2, 4, "does not support the given upgrade type"),
    ],
)
def test_the_upgrade_type_of_an_update_must_match_its_level(level: int, kind: int, problem: str):
    assert problem in refused({"a": FeatureUpdate(level, kind)}, {1: NEW})


def test_one_bad_update_keeps_all_from_being_made():
    assert "feature a." in refused({"b": FeatureUpdate(3, UPGRADE), "a": FeatureUpdate(9, UPGRADE)}, {1: NEW})


def test_a_broker_may_join_that_supports_all_that_is_finalised():
    assert unsupported(NOW, NEW) == []
    assert unsupported(Features({"a": 1, "c": 0}, epoch=1), OLD) == []
    problems = unsupported(Features({"a": 2, "b": 2}, epoch=1), OLD)
    assert len(problems) == 2
    message = str(refusal_to_join(problems))
    assert "a is finalised at level 2, and this broker only supports versions 0-1" in message
    assert "b is finalised at level 2, and this broker does not support this feature" in message
    assert "Install the version" in message


def test_a_new_cluster_begins_with_all_that_its_first_broker_can():
    assert first_features(NEW) == Features({"a": 2, "b": 3}, epoch=1)


def test_features_are_read_as_they_were_written_unless_a_newer_program_wrote_them():
    assert Features.decode(NOW.encode()) == NOW
    with pytest.raises(StorageError, match=r"format 99, and this program .* reads 1: install"):
        Features.decode(NOW.encode().replace(b'"version":1', b'"version":99'))


def test_metadata_without_features_have_the_levels_before_features():
    assert Features().levels == LEVELS_BEFORE
    assert unsupported(Features(), SUPPORTED) == []


def test_a_setting_makes_a_broker_support_only_older_levels():
    older = lowered(["penstock.version=1", "transaction.version=1"])
    assert older == {
        **SUPPORTED,
        "penstock.version": LevelRange(1, 1),
        "transaction.version": LevelRange(0, 1),
    }
    assert are_limits(["penstock.version=1"])
    for wrong in (
        "penstock.version",
        "penstock.version=9",
        "penstock.version=0",
        "nobody=1",
        "group.version=x",
    ):
        assert not are_limits([wrong])
