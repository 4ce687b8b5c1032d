"""A public class name means one thing in the whole tree."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "penstock"
# Written by tools/generate_messages.py with the protocol's own names, which recur from message to message.
GENERATED = SOURCE / "wire" / "messages"


def test_no_public_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if GENERATED in path.parents:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
