"""The fenced blocks of the documents, and what the comments right above them say about running them.

    <!-- not run: why it cannot be -->     the reason is required
    <!-- given: spark, broker -->          what the text around it takes for granted (`GIVENS`)
    <!-- before: topic("logs") -->         Python that runs first, for names that the text around it explains

A block in Python, or of commands (no language, `sh`), runs; one in `toml` or `properties` is read by the code that
reads such files; `text` is none of these: a listing, or what a program printed.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"),
    *(
        str(path.relative_to(ROOT))
        for folder in ("docs", "examples")
        for path in sorted((ROOT / folder).rglob("*.md"))
    ),
]
PYTHON, COMMANDS, DATA, LISTING = "python", "commands", "data", "listing"
KINDS = {
    "python": PYTHON,
    "": COMMANDS,
    "sh": COMMANDS,
    "toml": DATA,
    "properties": DATA,
    "text": LISTING,
}
GIVENS = {
    "broker": "a broker answers at localhost:9092",
    "java": "Java 17 is there",
    "spark": "PySpark is installed, Java is there, and `spark` is a session",
}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)$")
_COMMENT = re.compile(r"^ *<!-- (?P<word>not run|given|before): (?P<rest>.+) -->$")


class Block(NamedTuple):
    page: str
    line: int  # of its first line of text
    language: str
    text: str
    not_run: str
    given: frozenset[str]
    before: tuple[str, ...]

    @property
    def kind(self) -> str:
        return KINDS[self.language]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return not self.not_run


def blocks_of(page: str) -> list[Block]:
    return read(page, (ROOT / page).read_text())


def chosen(page: str, kind: str, *, spark: bool) -> list[Block]:
    return [
        block
        for block in blocks_of(page)
        if block.kind == kind and block.runs and ("spark" in block.given) is spark
    ]


def read(page: str, text: str) -> list[Block]:
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    said: list[tuple[str, str]] = []
    for number, line in lines:
        comment, fence = _COMMENT.match(line), _FENCE.match(line)
        if comment:
            said.append((comment["word"], comment["rest"]))
        elif fence:
            indent = len(fence["indent"])
            body = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                body.append(inner[indent:])
            else:
                raise ValueError(f"{page}:{number}: the block has no end")
            found.append(_block(page, number + 1, fence["language"], body, said))
            said = []
        else:
            said = []
    return found


def _block(page: str, line: int, language: str, body: list[str], said: list[tuple[str, str]]) -> Block:
    if language not in KINDS:
        raise ValueError(f"{page}:{line}: {language} is none of {', '.join(filter(None, KINDS))}")
    given = frozenset(name.strip() for word, rest in said if word == "given" for name in rest.split(","))
    if not given <= set(GIVENS):
        raise ValueError(f"{page}:{line}: {sorted(given)} can be given only of {sorted(GIVENS)}")
    return Block(
        page,
        line,
        language,
        "\n".join(body) + "\n",
        " ".join(rest for word, rest in said if word == "not run"),
        given,
        tuple(rest for word, rest in said if word == "before"),
    )
