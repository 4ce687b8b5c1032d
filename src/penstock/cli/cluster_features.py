"""Feature levels in `penstock cluster describe`, and `penstock cluster upgrade`, which raises them."""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from penstock.cli.confirm import confirm
from penstock.cli.output import print_json, print_lines, table
from penstock.cli.session import connected
from penstock.client.features import Feature, describe_features, raise_features


def as_text(features: Sequence[Feature]) -> Iterator[str]:
    yield from table(
        ("FEATURE", "LEVEL", "SUPPORTED"),
        [(feature.name, feature.level, _supported(feature)) for feature in features],
    )
    if any(feature.highest > feature.level for feature in features):
        yield ""
        yield "levels can be raised: `penstock cluster upgrade`"


def as_json(features: Sequence[Feature]) -> list[dict[str, object]]:
    return [
        {
            "name": feature.name,
            "level": feature.level,
            "supported": {str(node_id): list(levels) for node_id, levels in feature.supported.items()},
        }
        for feature in features
    ]


def _supported(feature: Feature) -> str:
    """The levels that all brokers support, or those of each broker if they differ."""
    if len(set(feature.supported.values())) == 1:
        return str(next(iter(feature.supported.values())))
    return ", ".join(f"{levels} by broker {node_id}" for node_id, levels in feature.supported.items())


def upgrade(arguments: Namespace) -> int:
    """Raise every finalised level to the highest that all brokers support, or show what would be raised."""
    with connected(arguments) as blocking:
        features = blocking.run(describe_features(blocking.client))
        raised = [feature for feature in features if feature.highest > feature.level]
        levels = {feature.name: feature.highest for feature in raised}
        if raised:
            blocking.run(raise_features(blocking.client, levels, validate_only=True))
        done = False
        try:
            if raised:
                if not arguments.json and not arguments.yes:
                    print_lines(_told(features, raised, done=False))
                confirm(arguments, _WHAT)
                blocking.run(raise_features(blocking.client, levels, validate_only=False))
            done = True
        finally:
            if arguments.json:
                print_json(_upgrade_as_json(features, raised, done=done))
    if not arguments.json:
        print_lines(_told(features, raised, done=True))
    return 0


_WHAT = "raise these features, after which brokers of older versions cannot join"


def _upgrade_as_json(
    features: Sequence[Feature], raised: Sequence[Feature], *, done: bool
) -> dict[str, object]:
    return {
        "done": done,
        "raised": [
            {"name": feature.name, "from": feature.level, "to": feature.highest} for feature in raised
        ],
        "features": as_json(features),
    }


def _told(features: Sequence[Feature], raised: Sequence[Feature], *, done: bool) -> Iterator[str]:
    for feature in raised:
        verb = "was raised" if done else "would be raised"
        yield f"{feature.name} {verb} from {feature.level} to {feature.highest}"
    for feature in features:
        most = max(levels.highest for levels in feature.supported.values())
        if most > feature.highest:
            yield f"{feature.name} stops below {most}: {_supported(feature)}"
    if not raised:
        yield "every feature is at the highest level that all brokers support"
