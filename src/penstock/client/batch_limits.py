"""The largest batch that a topic accepts: the topic's max.message.bytes, and its leader's socket.request.max.bytes.

A broker answers MESSAGE_TOO_LARGE to a batch above the first, and closes the connection on a request above the second:
that looks like any other lost connection, and a retry cannot help. So a large batch is compared with both before it is
sent. If a broker does not report its limits, the batch is sent unchecked.
"""

from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.configs import Resource, ResourceType, describe_configs
from penstock.client.errors import AnsweredError, UnsupportedError

MESSAGE_MAX: Final = "max.message.bytes"
REQUEST_MAX: Final = "socket.request.max.bytes"
# Smaller batches are sent without asking for the limits: a broker that rejects one answers with an error.
_ASKED_FROM_BYTES: Final = 1_000_000
_REQUEST_ASKED_FROM_BYTES: Final = 50 << 20
# A request is this much larger than its batch, at most: names, ids, lengths.
_REQUEST_OVERHEAD: Final = 4096


class Limit(NamedTuple):
    """The setting that a batch exceeds, and its value."""

    setting: str
    value: int


async def find_limit(client: Client, partition: TopicPartition, size: int) -> Limit | None:
    """The setting that a batch of this size exceeds; None if it fits, or the limit is unknown."""
    topic = Resource(ResourceType.TOPIC, partition.topic)
    message_max = await _config(client, topic, MESSAGE_MAX)
    if message_max is not None and size > message_max:
        return Limit(MESSAGE_MAX, message_max)
    if size >= _REQUEST_ASKED_FROM_BYTES:
        (leader,) = await client.leaders([partition])
        request_max = await _config(client, Resource(ResourceType.BROKER, str(leader)), REQUEST_MAX)
        if request_max is not None and size + _REQUEST_OVERHEAD > request_max:
            return Limit(REQUEST_MAX, request_max)
    return None


async def refusal_of_size(client: Client, partition: TopicPartition, size: int) -> Refusal | None:
    """The error that the broker would answer to a batch that is too large; None if it may be sent."""
    if size <= max(_ASKED_FROM_BYTES, client.batch_sizes_taken.get(partition.topic, 0)):
        return None
    limit = await find_limit(client, partition, size)
    if limit is not None:
        message = f"the batch has {size:,} bytes, and {limit.setting} is {limit.value:,}"
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, message)
    client.batch_sizes_taken[partition.topic] = size
    return None


async def _config(client: Client, resource: Resource, name: str) -> int | None:
    try:
        configs = (await describe_configs(client, [resource])).get(resource)
    except (AnsweredError, UnsupportedError):
        return None
    if configs is None or isinstance(configs, Refusal):
        return None
    values = [config.value for config in configs if config.name == name]
    return int(values[0]) if values and values[0] else None
