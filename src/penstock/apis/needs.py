"""Which access rights requests need, declared as `NEEDS` beside `VERSIONS`, and the one place that asks the authorizer.

    NEEDS = (
        Need(WRITE, TRANSACTIONAL_ID, "transactional_id"),
        Need(WRITE, TOPIC, "topic_data.name", ids="topic_data.topic_id"),
    )

A request that lacks any of its rights is answered with the error of that resource type and never reaches its handler.
`ListedOnly` says that a response lists only those resources for which the caller has a right; its handler asks
`Call.allows`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from penstock.apis.context import Call
from penstock.apis.error_response import error_response
from penstock.base.ids import TopicId
from penstock.core.access import CLUSTER_NAME, DENIED, Access, AclOperation, AclResourceType, Authorizer

NO_TOPIC_ID = bytes(16)


class Need(NamedTuple):
    """A right to an operation on each resource that a request names.

    Paths are field names with dots: "topics.name" is the name of each of the topics. A null name needs no right.
    """

    operation: AclOperation
    resource: AclResourceType
    names: str = ""  # the path of the names; without one it is the cluster
    ids: str = ""  # the path of topic ids, in versions that have them instead of names
    where: tuple[str, int] | None = None  # a field beside the names, and the value with which they count
    unless: str = ""  # a field of the request that takes this need away if it is not null
    or_cluster: AclOperation | None = None  # a right to this operation on the cluster will do instead


class ListedOnly(NamedTuple):
    """The response lists resources of a type for which the caller has the right to an operation."""

    operation: AclOperation
    resource: AclResourceType


Needs: TypeAlias = "tuple[Need | ListedOnly, ...]"
Handler: TypeAlias = Callable[[Call, Any], Any]


def authorizing(handle: Handler, needs: Needs, authorizer: Authorizer) -> Handler:
    """A handler of the requests that the authorizer allows; all others are answered with an error."""
    asked = [need for need in needs if isinstance(need, Need)]
    if authorizer.allows_all or not asked:
        return handle

    def handle_or_deny(call: Call, request: Any) -> Any:
        for need in asked:
            if not _is_met(call, request, need, authorizer):
                return error_response(
                    request, call.version, DENIED[need.resource], per_part="." in need.names
                )
        return handle(call, request)

    return handle_or_deny


def _is_met(call: Call, request: Any, need: Need, authorizer: Authorizer) -> bool:
    principal, host = call.client.principal, call.client.host
    names = set(resource_names(call, request, need))
    if not names:
        return True
    if need.or_cluster is not None and authorizer.allows(
        principal, host, Access(need.or_cluster, AclResourceType.CLUSTER, CLUSTER_NAME)
    ):
        return True
    return all(
        authorizer.allows(principal, host, Access(need.operation, need.resource, name))
        for name in sorted(names)
    )


def resource_names(call: Call, request: Any, need: Need) -> Iterator[str]:
    """The names of the resources that a request needs a right to."""
    if need.unless and getattr(request, need.unless) is not None:
        return
    if not need.names:
        yield CLUSTER_NAME
        return
    for value in _values(request, need.names, need.where):
        if isinstance(value, str):
            if value:
                yield value if need.resource is not AclResourceType.CLUSTER else CLUSTER_NAME
            elif need.resource is AclResourceType.CLUSTER:
                yield CLUSTER_NAME
    if need.ids:
        for value in _values(request, need.ids, need.where):
            # The handler answers an id that is not in the metadata with UNKNOWN_TOPIC_ID.
            topic = None if value == NO_TOPIC_ID else call.services.cluster.image.topic_by_id(TopicId(value))
            if topic is not None:
                yield topic.name


def _values(parent: Any, path: str, where: tuple[str, int] | None) -> Iterator[Any]:
    field, _, rest = path.partition(".")
    value = getattr(parent, field)
    if rest:
        for child in value or ():
            yield from _values(child, rest, where)
    elif where is None or getattr(parent, where[0]) == where[1]:
        if isinstance(value, list):
            yield from value
        elif value is not None:
            yield value
