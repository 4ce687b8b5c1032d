"""Topic ids, topic names and topic-partitions."""

import base64
import binascii
import re
from typing import NamedTuple, NewType

from penstock.base.errors import UserError

# Sixteen raw bytes: cheap to hash, compare and put on the wire; people see Kafka's base64 form.
TopicId = NewType("TopicId", bytes)

ZERO_ID = TopicId(bytes(16))

# The internal topics with the state of coordinators.
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")
TOPIC_NAME_LENGTH_MAX = 249


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition of a topic, by id."""

    topic_id: bytes
    partition: int


def format_id(raw: bytes) -> str:
    """A 16-byte id as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def parse_id(text: str) -> TopicId:
    """The reverse of `format_id`."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise UserError(f"{text!r} is not an id: 22 characters of URL-safe base64 are expected") from error
    if len(raw) != 16:
        raise UserError(f"{text!r} is not an id: it holds {len(raw)} bytes instead of 16")
    return TopicId(raw)


def topic_name_problem(name: str) -> str | None:
    """Why `name` is not a valid topic name, or None if it is."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return "the topic name cannot be '.' or '..'"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"the topic name is {len(name)} characters long; at most {TOPIC_NAME_LENGTH_MAX} are allowed"
    if not _LEGAL_TOPIC.match(name):
        return f"the topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
