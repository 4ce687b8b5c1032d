"""The topics of the metadata image, as consumer groups subscribe to them."""

from collections.abc import Sequence

from penstock.base.ids import TopicId
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.core.groups.subscriptions import SubscribableTopic


class ImageTopics:
    """Implements `subscriptions.Topics`."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    @property
    def version(self) -> int:
        return self._image.topics_version

    def named(self, name: str) -> SubscribableTopic | None:
        return _known(self._image.topic(name))

    def with_id(self, topic_id: TopicId) -> SubscribableTopic | None:
        return _known(self._image.topic_by_id(topic_id))

    def names(self) -> Sequence[str]:
        return [topic.name for topic in self._image.topics()]


def _known(topic: Topic | None) -> SubscribableTopic | None:
    return None if topic is None else SubscribableTopic(topic.name, topic.topic_id, len(topic.partitions))
