"""The arguments of request handlers: the call, with its client and the broker's services."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.controller.failure_detector.broker_view import BrokerView
from penstock.core.access import ANONYMOUS, Access, AclOperation, AclResourceType, Authorizer, Principal
from penstock.services.metrics import Counter, Metrics
from penstock.world import World

if TYPE_CHECKING:
    from penstock.cluster.features import Ranges
    from penstock.cluster.handshake import AcceptorHandshake, BrokerIdentity, PeerCredentials
    from penstock.cluster.metadata import MetadataImage
    from penstock.controller.broker_registry import BrokerRegistry
    from penstock.controller.controller import Controller
    from penstock.controller.controller_link import ControllerLink
    from penstock.core.fetch_sessions import FetchSessions
    from penstock.services.configs import Configs
    from penstock.services.coordinators.coordinators import Coordinators
    from penstock.services.fetching.consumer_fetches import ConsumerFetches
    from penstock.services.fetching.follower_fetches import FollowerFetches
    from penstock.services.flusher import Flusher
    from penstock.services.producing import Producing
    from penstock.services.replicas.replica_manager import ReplicaManager
    from penstock.services.transactions.transactions import Transactions


@dataclass(frozen=True)
class NodeServices:
    """This broker's identity, settings and world."""

    world: World
    node_id: int
    log_dir: str
    configs: "Configs"
    metrics: Metrics
    authorizer: Authorizer
    api_versions: dict[int, tuple[int, int]] = field(default_factory=dict)  # as ApiVersions lists them
    broker_api_versions: dict[int, tuple[int, int]] = field(default_factory=dict)  # those for brokers only
    bytes_out: Counter = field(default_factory=Counter)
    refused_connections: Counter = field(default_factory=Counter)


@dataclass(frozen=True)
class LogServices:
    """The replicas on this broker, and the services that produce and fetch share."""

    replicas: "ReplicaManager"
    flusher: "Flusher"
    fetch_sessions: "FetchSessions"


@dataclass(frozen=True)
class ClusterServices:
    """The metadata of the cluster, and the controller that changes it."""

    image: "MetadataImage"
    peer_credentials: "PeerCredentials"  # for the handshake between brokers
    supported_features: "Ranges"  # by this broker; the finalised ones are in the image
    controller: "Controller"
    controller_link: "ControllerLink"
    broker_registry: "BrokerRegistry | None"  # None without a cluster
    broker_view: BrokerView = field(default_factory=BrokerView)


@dataclass(frozen=True)
class Services:
    """Everything handlers share: groups of services, and the doors to records. The broker builds them once."""

    node: NodeServices
    logs: LogServices
    cluster: ClusterServices
    coordinators: "Coordinators"
    transactions: "Transactions"
    producing: "Producing"
    consumer_fetches: "ConsumerFetches"
    follower_fetches: "FollowerFetches"


class ConnectedClient:
    """The client at the other end of a connection."""

    __slots__ = ("broker", "handshake", "host", "listener", "port", "principal", "software_name")

    def __init__(self, listener: str) -> None:
        self.listener = listener  # the listener it connected to
        self.host = ""
        self.port = 0
        self.principal = ANONYMOUS  # until listeners authenticate
        self.broker: BrokerIdentity | None = None  # once it has proven to be a broker of this cluster
        self.handshake: AcceptorHandshake | None = None  # begun, or over
        self.software_name = ""  # client_software_name of its ApiVersions request, if it sent one


class Call:
    """One request as its handler sees it: its version, the client that sent it, and the services to answer with."""

    __slots__ = ("client", "client_id", "services", "version")

    def __init__(
        self, services: Services, client: ConnectedClient, client_id: str | None, version: int
    ) -> None:
        self.services = services
        self.client = client
        self.client_id = client_id
        self.version = version

    @property
    def principal(self) -> Principal:
        """Who sent the request."""
        return self.client.principal

    def allows(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether its principal may do this to a resource that the request did not name."""
        return self.services.node.authorizer.allows(
            self.client.principal, self.client.host, Access(operation, resource, name)
        )
