"""What the documents around the code promise."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_readme_shows_the_two_commands_that_do_everything(command: str) -> None:
    assert f"\n{command}\n" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m venv .venv",
        ".venv/bin/pip install --require-hashes -r requirements/run.lock",
        ".venv/bin/pip install --no-deps --no-build-isolation -e .",
        ".venv/bin/penstock serve",
        ".venv/bin/pip install --require-hashes -r requirements/dev.lock",
        ".venv/bin/pytest",
    ],
)
def test_the_readme_shows_the_plain_commands_for_those_without_make(command: str) -> None:
    assert command in (ROOT / "README.md").read_text()


def test_the_license_is_the_apache_license() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize(
    "words",
    [
        "Clients are not authenticated yet",
        "act as a broker",
        "transaction marker",
        "let only trusted machines reach",
    ],
)
def test_the_page_on_clusters_says_what_any_program_on_the_network_can_do(words: str) -> None:
    text = " ".join((ROOT / "docs" / "cluster.md").read_text().split())
    section = text.partition("## Keep the ports within a trusted network")[2].partition(" ## ")[0]
    assert words in section


def test_contributing_fits_on_a_page() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 66


def test_the_changelog_names_the_version() -> None:
    from penstock.base.version import VERSION

    assert VERSION in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "artefact",
    [
        ".venv/bin/python",
        "data/meta.properties",
        "bench/results/raw.json",
        ".hypothesis/examples",
        "dist/x.whl",
    ],
)
def test_artefacts_and_raw_results_stay_out_of_git(artefact: str) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "check-ignore", "-q", artefact], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0, f"{artefact} is not ignored"
