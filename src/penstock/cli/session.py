"""A connected client for one command, and topics by name."""

import difflib
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.base.errors import ErrorCode, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.command_config import read_security
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client, ClientSettings
from penstock.client.cluster import KnownTopic
from penstock.client.errors import AnsweredError, UnreachableError
from penstock.client.outages import Outages
from penstock.client.security import Security

_PATIENCE_MS = 30_000


class MissingTopicError(UserError):
    """There is no topic with that name."""


@contextmanager
def connected(arguments: Namespace) -> Iterator[BlockingClient]:
    """A client for the cluster that the arguments name; it connects when it is first used."""
    settings = ClientSettings(
        client_id="penstock-cli",
        patience_ms=_PATIENCE_MS,
        security=read_security(arguments.command_config) if arguments.command_config else Security(),
    )
    with BlockingClient(arguments.bootstrap_server, settings=settings) as blocking:
        try:
            yield blocking
        except UnreachableError as error:
            raise UserError(f"{error}; is a broker running there? start one with `penstock serve`") from error


def report_outages(client: Client) -> Outages:
    """Print a line on stderr whenever a broker does not answer and the client retries."""
    outages = Outages(
        client.bootstrap_servers, lambda line: print(f"penstock: {line}", file=sys.stderr, flush=True)
    )
    client.retrying = outages.failed
    return outages


async def find_topics(
    client: Client, names: Sequence[str], *, could_be_made: bool = False
) -> list[KnownTopic]:
    """The topics with these names; UserError for the first that does not exist, with the nearest name and, if
    `could_be_made`, with the command that creates it.
    """
    topics = await client.refresh(names)
    for topic in topics:
        if topic.refusal is None:
            continue
        if topic.refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise await unknown_topic(client, topic.name, could_be_made=could_be_made)
        if not topic.partitions:
            raise AnsweredError(topic.refusal, f"topic {topic.name!r}")
    in_order = {topic.name: topic for topic in topics}
    return [in_order[name] for name in dict.fromkeys(names)]


async def find_partitions(client: Client, name: str, chosen: Sequence[int] | None) -> list[TopicPartition]:
    """These partitions of a topic, or all; UserError for one that does not exist."""
    (topic,) = await find_topics(client, [name])
    count = len(topic.partitions)
    for partition in chosen or ():
        if partition >= count:
            raise UserError(f"topic {name} has no partition {partition}; the last one is {count - 1}")
    return [TopicPartition(name, partition) for partition in chosen or range(count)]


async def unknown_topic(client: Client, name: str, *, could_be_made: bool = False) -> MissingTopicError:
    existing = [topic.name for topic in await client.refresh(None)]
    making = f"penstock topic create {name}" if could_be_made else None
    return MissingTopicError(str(unknown("topic", name, existing, "penstock topic list", making=making)))


def unknown(
    what: str, name: str, existing: Sequence[str], listing: str, *, making: str | None = None
) -> UserError:
    """The error for an unknown name: with the nearest name, and the command that creates or lists such things."""
    nearest = difflib.get_close_matches(name, existing, n=1, cutoff=0.6)
    if making is not None:
        hint = (
            f"did you mean {nearest[0]!r}? `{making}` creates a new one"
            if nearest
            else f"`{making}` creates it"
        )
    else:
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"`{listing}` lists all"
    return UserError(f"there is no {what} {name!r}; {hint}")
