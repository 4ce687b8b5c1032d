"""What a setting takes, how it is shown, and how it complains."""

import pytest

from penstock.base.allowed_values import Between, EachOneOf, OneOf
from penstock.base.errors import SettingError
from penstock.base.secret import Secret
from penstock.base.settings import (
    DOUBLE_MAX,
    Catalogue,
    Given,
    Setting,
    SettingKind,
    Settings,
    Source,
    boolean,
    double,
    group_by_name,
    integer,
    long,
    optional_integer,
    render_double,
    text,
    words,
)

PATIENCE_MS = integer("patience.ms", 500, "How long to wait.", allowed=Between(0, 1000, also=(-1,)))
COLOURS = words("colours", ("red",), "Which ones.", allowed=EachOneOf(("red", "green")))
SHARE = double("share", 0.5, "How much.", allowed=Between(0, 1))
EAGER = boolean("eager", False, "Whether to hurry.")
MOOD = text("mood", "calm", "How it feels.", allowed=OneOf(("calm", "cross")))
WEIGHT = optional_integer("weight", "How heavy it is.")
DISTANCE = long("distance", 0, "How far.")
PIN = Setting("pin", SettingKind.PASSWORD, "", "A secret.")
WINGS = boolean("wings", False, "Whether it flies.", refused="pigs do not fly")
EVERYTHING = Catalogue("pig", (PATIENCE_MS, COLOURS, SHARE, EAGER, MOOD, WEIGHT, DISTANCE, PIN, WINGS))


@pytest.mark.parametrize(
    ("setting", "raw", "value"),
    [
        (PATIENCE_MS, "7", 7),
        (PATIENCE_MS, " +7 ", 7),
        (PATIENCE_MS, 7, 7),
        (PATIENCE_MS, "-1", -1),
        (COLOURS, "", ()),
        (COLOURS, "red, green", ("red", "green")),
        (COLOURS, ["green"], ("green",)),
        (SHARE, ".5", 0.5),
        (SHARE, "1e-1", 0.1),
        (SHARE, 1, 1.0),
        (EAGER, "TRUE", True),
        (EAGER, " false ", False),
        (EAGER, True, True),
        (MOOD, " cross ", "cross"),
        (DISTANCE, str(2**63 - 1), 2**63 - 1),
        (PIN, " 1 2 ", Secret(" 1 2 ")),
        (WINGS, "false", False),
    ],
)
def test_text_and_native_values_are_read(setting, raw, value):
    assert setting.parse(raw) == value
    assert type(setting.parse(raw)) is type(value)


@pytest.mark.parametrize(
    ("setting", "raw", "reason"),
    [
        (PATIENCE_MS, "seven", "a whole number is expected"),
        (PATIENCE_MS, "1_000", "a whole number is expected"),
        (PATIENCE_MS, "٣", "a whole number is expected"),
        (PATIENCE_MS, "0x10", "a whole number is expected"),
        (PATIENCE_MS, "", "a whole number is expected"),
        (PATIENCE_MS, "9" * 5000, "a whole number is expected"),
        (PATIENCE_MS, True, "a whole number is expected"),
        (PATIENCE_MS, 1.5, "a whole number is expected"),
        (PATIENCE_MS, "1001", "allowed is 0 to 1000, or -1"),
        (PATIENCE_MS, "-2", "allowed is 0 to 1000, or -1"),
        (PATIENCE_MS, str(2**31), "does not fit 32 bits"),
        (DISTANCE, str(2**63), "does not fit 64 bits"),
        (COLOURS, "red,blue", "allowed is a comma-separated list of: red, green"),
        (COLOURS, 5, "a list of words is expected"),
        (COLOURS, [5], "a list of words is expected"),
        (SHARE, "nan", "a number is expected"),
        (SHARE, float("nan"), "a finite number is expected"),
        (SHARE, "1e999", "a finite number is expected"),
        (SHARE, "1.01", "allowed is 0 to 1"),
        (EAGER, "yes", "allowed is true or false"),
        (EAGER, 1, "allowed is true or false"),
        (MOOD, "Calm", "allowed is one of: calm, cross"),
        (MOOD, 3, "text is expected"),
        (WINGS, "true", "pigs do not fly; only false is taken"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(setting, raw, reason):
    with pytest.raises(SettingError) as caught:
        setting.parse(raw)
    assert str(caught.value).startswith(f"{setting.name} cannot be {raw!r}: ")
    assert reason in str(caught.value)


def test_a_secret_is_neither_shown_nor_quoted():
    assert PIN.show("1234") is None
    with pytest.raises(SettingError) as caught:
        PIN.parse(1234)
    assert "1234" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [
        (EAGER, True, "true"),
        (COLOURS, ("red", "green"), "red,green"),
        (COLOURS, (), ""),
        (PATIENCE_MS, -1, "-1"),
        (WEIGHT, None, None),
        (SHARE, 0.5, "0.5"),
    ],
)
def test_values_are_shown_as_kafka_writes_them(setting, value, shown):
    assert setting.render(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_shown_as_java_does(value, shown):
    assert render_double(value) == shown
    assert float(shown) == value


def test_an_unknown_name_is_answered_with_the_nearest_known_one():
    with pytest.raises(SettingError, match=r"unknown pig setting 'patience'; did you mean patience\.ms\?"):
        EVERYTHING["patience"]
    with pytest.raises(SettingError, match=r"unknown pig setting 'zzz'$"):
        EVERYTHING["zzz"]


def test_a_name_can_be_declared_only_once():
    with pytest.raises(AssertionError, match="declared twice"):
        Catalogue("pig", (EAGER, EAGER))


def test_of_several_values_the_strongest_source_decides_and_within_one_the_latest():
    given = group_by_name(
        [
            EVERYTHING.give("mood", "cross", source=Source.DYNAMIC_BROKER, origin="a request"),
            EVERYTHING.give("mood", "calm", source=Source.STATIC_BROKER, origin="a file"),
            EVERYTHING.give("patience.ms", "1", source=Source.STATIC_BROKER, origin="a file"),
            EVERYTHING.give("patience.ms", "2", source=Source.STATIC_BROKER, origin="--set"),
        ]
    )
    settings = Settings(EVERYTHING, given)
    assert (settings[MOOD], settings.source(MOOD), settings.origin(MOOD)) == (
        "cross",
        Source.DYNAMIC_BROKER,
        "a request",
    )
    assert (settings[PATIENCE_MS], settings.origin(PATIENCE_MS)) == (2, "--set")
    assert (settings[WEIGHT], settings.source(WEIGHT), settings.origin(WEIGHT)) == (
        None,
        Source.DEFAULT,
        "default",
    )
    assert [line.value for line in settings.behind(MOOD, "mood")] == ["cross", "calm", "calm"]
    assert settings.rendered(PATIENCE_MS) == "2"


def test_a_value_from_a_setting_that_is_no_synonym_is_our_own_bug():
    with pytest.raises(AssertionError, match="does not stand in"):
        Settings(EVERYTHING, {"mood": (Given("patience.ms", 5, Source.STATIC_BROKER, "nowhere"),)})
