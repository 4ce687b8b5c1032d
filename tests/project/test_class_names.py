"""A public class name means one thing in the whole tree."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "penstock"
# Shapes of messages and of internal topics' records have Kafka's own names, which recur from one to the next.
KAFKAS_NAMES = (SOURCE / "wire" / "messages", SOURCE / "records" / "internal")


def test_no_public_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if any(shapes in path.parents for shapes in KAFKAS_NAMES):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
