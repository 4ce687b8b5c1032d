"""Clients from options. On the driver and in tasks.

A Python worker of Spark runs many tasks, one after the other, and keeps its clients, so that a small task need not open
connections.
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from penstock.base.settings import Settings
from penstock.client.blocking import BlockingClient
from penstock.client.client import ClientSettings
from penstock.client.connection import ConnectionLimits
from penstock.spark.options import BOOTSTRAP_SERVERS, CLIENT_ID, PATIENCE_MS, REQUEST_TIMEOUT_MS, security_in

_KEPT_MAX: Final = 4


class ClusterAddress(NamedTuple):
    """The bootstrap servers and client settings; small, and can be pickled."""

    bootstrap_servers: str
    settings: ClientSettings


def cluster_of(settings: Settings) -> ClusterAddress:
    servers = settings[BOOTSTRAP_SERVERS]
    assert servers is not None, "checked with the options"
    return ClusterAddress(
        servers,
        ClientSettings(
            client_id=settings[CLIENT_ID],
            limits=ConnectionLimits(request_timeout_ms=settings[REQUEST_TIMEOUT_MS]),
            patience_ms=settings[PATIENCE_MS],
            security=security_in(settings),
            retries_first_connection=True,  # a new worker, but not the query's first connection
        ),
    )


_kept: dict[ClusterAddress, BlockingClient] = {}


@contextmanager
def connected(cluster: ClusterAddress) -> Iterator[BlockingClient]:
    """A cached client of the cluster; dropped from the cache after an error."""
    client = _kept.pop(cluster, None) or BlockingClient(cluster.bootstrap_servers, settings=cluster.settings)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    _kept[cluster] = client
    while len(_kept) > _KEPT_MAX:
        _kept.pop(next(iter(_kept))).close()


@atexit.register
def _close_all() -> None:
    while _kept:
        _kept.popitem()[1].close()
