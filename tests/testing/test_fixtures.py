"""The plugin's fixtures, in test files of people who have installed penstock."""

from pathlib import Path

import pytest

from tests.project.test_examples import plugin

pytest_plugins = ["pytester"]


def passes(pytester: pytest.Pytester, count: int) -> None:
    arguments = ["-q", "-p", "no:randomly", *plugin(), "-p", "no:cacheprovider"]
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=count)


def test_a_broker_of_its_own_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_it_is_empty(penstock_fresh_broker, number):
            assert penstock_fresh_broker.records("orders") == []
            penstock_fresh_broker.send("orders", b"x")
        """
    )
    passes(pytester, 2)


def test_the_sessions_broker_is_well_again_for_the_next_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def address(penstock_broker):
            return penstock_broker.bootstrap_servers

        def test_faults(address, penstock_broker):
            penstock_broker.send("orders", b"x")
            penstock_broker.faults.disk_full = True
            penstock_broker.faults.refuse_connections = True

        def test_they_are_cleared(penstock_broker):
            assert not penstock_broker.faults.disk_full
            penstock_broker.send("orders", b"y")
            penstock_broker.kill()

        def test_it_is_started_again_where_it_was(address, penstock_broker):
            assert penstock_broker.bootstrap_servers == address
            assert [record.value for record in penstock_broker.records("orders")] == [b"x", b"y"]
        """
    )
    passes(pytester, 3)


def test_settings_of_a_project_and_of_a_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def penstock_settings():
            return {"num.partitions": 2}
        """
    )
    pytester.makepyfile(
        """
        def partitions(broker):
            broker.send("orders", *"abcdefghijklmnopqrstuvwxyz")
            for letter in "abcdefgh":
                broker.send("orders", letter, key=letter)
            return {record.partition for record in broker.records("orders")}

        def test_of_the_project(penstock_broker, penstock_fresh_broker):
            assert partitions(penstock_broker) == partitions(penstock_fresh_broker) == {0, 1}

        def test_of_its_own(penstock_new_broker, tmp_path):
            one = penstock_new_broker(settings={"num.partitions": 1}, data_dir=tmp_path / "data")
            assert partitions(one) == {0}
            assert (tmp_path / "data" / "orders-0").is_dir()

        def test_several_that_know_nothing_of_each_other(penstock_new_broker):
            one, two = penstock_new_broker(), penstock_new_broker()
            one.send("orders", b"x")
            assert len(one.records("orders")) == 1
            assert two.records("orders") == []
        """
    )
    passes(pytester, 3)


def test_the_page_names_every_fixture() -> None:
    from penstock.testing import pytest_plugin

    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    names = [name for name in vars(pytest_plugin) if name.startswith("penstock_")]
    assert len(names) == 4
    for name in names:
        assert f"`{name}`" in page
    for word in (
        "settings=",
        "data_dir=",
        "port=",
        "`kill` and `restart` need the\nbroker on its own thread",
    ):
        assert word in page
