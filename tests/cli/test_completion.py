"""`penstock completion`: what a real shell offers for words that a person has begun."""

import argparse
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from penstock.cli.main import COMMANDS
from penstock.cli.parsing import new_parser
from tests.cli.running import Penstock


@pytest.fixture
def scripts(offline: Penstock, tmp_path: Path) -> Path:
    for shell in ("bash", "zsh", "fish"):
        outcome = offline("completion", shell)
        assert (outcome.code, outcome.err) == (0, "")
        (tmp_path / shell).write_text(outcome.out)
    return tmp_path


def offered(scripts: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {scripts / 'bash'}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _penstock; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["penstock", ""], set(COMMANDS)),
        (["penstock", "con"], {"consume"}),
        (["penstock", "topic", "de"], {"describe", "delete"}),
        (["penstock", "topic", "create", "orders", "--re"], {"--replication-factor"}),
        (["penstock", "topic", "-b", "localhost:9092", "create", "--pa"], {"--partitions"}),
        (["penstock", "produce", "orders", "--acks", ""], {"all", "1", "0"}),
        (["penstock", "produce", "orders", "-z", "z"], {"zstd"}),
        (["penstock", "completion", ""], {"bash", "zsh", "fish"}),
        (["penstock", "consume", "orders", "--fo"], {"--follow"}),
        (["penstock", "consume", "topic", "--pri"], {"--print"}),
        (["penstock", "nonsense", ""], set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bash_offers_what_can_stand_there(scripts: Path, words: list[str], expected: set[str]) -> None:
    assert offered(scripts, *words) == expected


def test_bash_completes_commands_when_it_has_read_the_script(scripts: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source {scripts / 'bash'}; complete -p penstock"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "complete -o default -F _penstock penstock\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_take_their_scripts(scripts: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", str(scripts / shell)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_verb_and_every_option_is_in_every_script(scripts: Path) -> None:
    for command in COMMANDS:
        parser = new_parser(f"penstock {command}")
        import_module(f"penstock.cli.{command}").add_arguments(parser)
        parsers: list[argparse.ArgumentParser] = [parser]
        for each in parsers:
            for action in each._actions:
                if isinstance(action, argparse._SubParsersAction):
                    parsers += action.choices.values()
                for option in action.option_strings:
                    assert option in (scripts / "bash").read_text()
                    assert option in (scripts / "zsh").read_text()
                    assert f" {option.lstrip('-')} " in (scripts / "fish").read_text()
