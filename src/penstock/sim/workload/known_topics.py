"""Which topics have to exist: those whose creation was acknowledged, and whose deletion was never requested.

A DeleteTopics request may arrive late, when a topic of the same name exists again: a name that was once to be deleted
is not checked any more.
"""


class KnownTopics:
    """What brokers answered about topics; `lost` has those whose later answers contradict."""

    def __init__(self) -> None:
        self._certain: dict[str, None] = {}
        self._doomed: dict[str, None] = {}
        self.lost: dict[str, str] = {}  # by name: how one knows

    def asked_to_delete(self, topic: str) -> None:
        self._doomed[topic] = None
        self._certain.pop(topic, None)

    def created(self, topic: str) -> None:
        """The broker has said that it made the topic."""
        if topic in self._certain:
            self.lost[topic] = "it could be created a second time"
        self.exists(topic)

    def exists(self, topic: str) -> None:
        """The broker has said that the topic is there."""
        if topic not in self._doomed:
            self._certain[topic] = None

    def listed(self, topics: list[str]) -> None:
        """The broker has said that these are all."""
        for topic in self._certain:
            if topic not in topics:
                self.lost.setdefault(topic, f"the broker has only {', '.join(topics) or 'none'}")
