"""Builds the groups of services that request handlers get. It only builds: no I/O, no listeners, no tasks.

A broker builds all groups. A test that needs a broker's handlers without its cluster builds the same groups from the
same functions.
"""

from penstock.apis.context import ClusterServices, LogServices, NodeServices, Services
from penstock.base.broker_settings import (
    DEFAULT_REPLICATION_FACTOR,
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
    NODE_ID,
    NUM_PARTITIONS,
    PENSTOCK_FETCH_SESSION_PARTITIONS_MAX,
    PENSTOCK_LOOP_SLICE_MS,
    PENSTOCK_PARTITIONS_MAX,
    PENSTOCK_QUEUED_SYNCS_MAX,
    PENSTOCK_SYNC_WHOLE_FILE_SYSTEM_FROM,
    PENSTOCK_WORK_THREADS,
)
from penstock.base.cluster_settings import LEADER_REPLICATION_THROTTLED_RATE
from penstock.base.settings import Settings
from penstock.cluster.metadata import MetadataImage
from penstock.controller.controller import Controller
from penstock.core.access import AllowAll
from penstock.core.fetch_sessions import FetchSessions
from penstock.services.configs import Configs
from penstock.services.coordinators.coordinators import Coordinators
from penstock.services.fetching.consumer_fetches import ConsumerFetches
from penstock.services.fetching.follower_fetches import FollowerFetches
from penstock.services.flusher import Flusher
from penstock.services.metrics import Metrics
from penstock.services.producer_ids import ProducerIds
from penstock.services.producing import Producing
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.replication.replication_quotas import ReplicationQuota
from penstock.services.transactions.transactions import Transactions
from penstock.storage.data_directory import DataDirectory
from penstock.world import World


def build_node(world: World, settings: Settings, image: MetadataImage, *, log_dir: str) -> NodeServices:
    """This broker's identity, settings and world."""
    metrics = Metrics()
    node_id = settings[NODE_ID]
    return NodeServices(
        world=world,
        node_id=node_id,
        log_dir=log_dir,
        configs=Configs(settings, image, node_id=node_id),
        metrics=metrics,
        authorizer=AllowAll(),
        bytes_out=metrics.counter("penstock_sent_bytes_total", "Bytes of answers."),
        refused_connections=metrics.counter(
            "penstock_refused_connections_total",
            "Connections closed for what they sent, or over a limit.",
        ),
    )


def build_logs(
    node: NodeServices, directory: DataDirectory, settings: Settings, image: MetadataImage
) -> LogServices:
    """The replicas of a data directory, none loaded."""
    world = node.world
    flusher = Flusher(
        world,
        lanes=settings[PENSTOCK_WORK_THREADS],
        queue_max=settings[PENSTOCK_QUEUED_SYNCS_MAX],
        whole_from=settings[PENSTOCK_SYNC_WHOLE_FILE_SYSTEM_FROM],
    )
    return LogServices(
        replicas=ReplicaManager(
            world,
            directory,
            flusher,
            node.configs,
            node_id=node.node_id,
            slice_ms=settings[PENSTOCK_LOOP_SLICE_MS],
            metrics=node.metrics,
            deletions=image.deletions,
        ),
        flusher=flusher,
        fetch_sessions=FetchSessions(
            slots=settings[MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
            partitions_max=settings[PENSTOCK_FETCH_SESSION_PARTITIONS_MAX],
            random_below=world.entropy.random_below,
        ),
    )


def build_controller(node: NodeServices, settings: Settings, image: MetadataImage) -> Controller:
    """A controller that is not active."""
    return Controller(
        node.world,
        image,
        node.configs,
        default_partition_count=settings[NUM_PARTITIONS],
        default_replication_factor=settings[DEFAULT_REPLICATION_FACTOR],
        partition_count_max=settings[PENSTOCK_PARTITIONS_MAX],
    )


def build_services(
    node: NodeServices, logs: LogServices, cluster: ClusterServices, settings: Settings
) -> Services:
    """All groups, with coordinators that have loaded no shard."""
    world, image, link = node.world, cluster.image, cluster.controller_link
    coordinators = Coordinators(world, image, link, logs.replicas, node.configs)
    transactions = Transactions(
        world,
        image,
        logs.replicas,
        coordinators.transactions,
        coordinators.groups,
        ProducerIds(link),
        cluster.peer_credentials,
        node_id=node.node_id,
        slice_ms=settings[PENSTOCK_LOOP_SLICE_MS],
    )
    return Services(
        node,
        logs,
        cluster,
        coordinators,
        transactions,
        Producing(world, logs.replicas, logs.flusher, transactions.verifier),
        ConsumerFetches(world, image, logs.replicas, node.configs, node_id=node.node_id),
        FollowerFetches(
            world,
            image,
            logs.replicas,
            node.configs,
            ReplicationQuota(world, node.configs, LEADER_REPLICATION_THROTTLED_RATE),
        ),
    )
