"""A connected client for one command, and topics by name."""

import difflib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.base.errors import ErrorCode, UserError
from penstock.cli.command_config import read_security
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client, ClientSettings
from penstock.client.cluster import Topic
from penstock.client.errors import AnsweredError, UnreachableError
from penstock.client.security import Security

_PATIENCE_MS = 30_000


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


async def find_topics(client: Client, names: Sequence[str]) -> list[Topic]:
    """The topics of these names; UserError for the first that does not exist, with what may have been
    meant.
    """
    topics = await client.refresh(names)
    for topic in topics:
        if topic.refusal is None:
            continue
        if topic.refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise await unknown_topic(client, topic.name)
        if not topic.partitions:
            raise AnsweredError(topic.refusal, f"topic {topic.name!r}")
    in_order = {topic.name: topic for topic in topics}
    return [in_order[name] for name in dict.fromkeys(names)]


async def unknown_topic(client: Client, name: str) -> UserError:
    existing = [topic.name for topic in await client.refresh(None)]
    return unknown("topic", name, existing, "penstock topic list")


def unknown(what: str, name: str, existing: Sequence[str], listing: str) -> UserError:
    """There is nothing of that name: what may have been meant, or which command lists what there is."""
    nearest = difflib.get_close_matches(name, existing, n=1, cutoff=0.6)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"`{listing}` shows those there are"
    return UserError(f"there is no {what} {name!r}; {hint}")
