"""What the topics of a plan promise to keep, given every config change that was requested, successful or not."""

from collections.abc import Sequence

from penstock.sim.checkers import Keeping
from penstock.sim.topic_plans import TopicPlan, keeping

_POLICY = "cleanup.policy"


class TopicPromises:
    """Knows what was asked to change; a topic of a name promises the least that it may have been set to."""

    def __init__(self, topics: Sequence[TopicPlan]) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._changes: dict[str, list[tuple[str, str]]] = {topic.name: [] for topic in topics}

    def __getitem__(self, topic: str) -> TopicPlan:
        return self._topics[topic]

    def note_change(self, topic: str, name: str, value: str) -> None:
        self._changes.setdefault(topic, []).append((name, value))

    def of(self, topic: str) -> Keeping:
        configs, changes = self._topics[topic].configs, self._changes[topic]
        policies = [configs[_POLICY], *(value for name, value in changes if name == _POLICY)]
        every_policy = {_POLICY: ",".join(policies)}
        least = keeping({**configs, **every_policy})
        for name, value in changes:
            if name != _POLICY:
                least = least.weaker(keeping({**configs, **every_policy, name: value}))
        return least
