"""ReleaseFetch (key 10003), v0: complete the delayed fetch of this connection. Private.

There is nothing to do here: any request completes a delayed fetch that came before it (`Reply.release`).
"""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, CLUSTER_ACTION
from penstock.wire.private.release_fetch import ReleaseFetchRequest, ReleaseFetchResponse

REQUEST = ReleaseFetchRequest
VERSIONS = (0, 0)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER),)
BROKERS_ONLY = True


def handle(_call: Call, _request: ReleaseFetchRequest) -> ReleaseFetchResponse:
    return ReleaseFetchResponse()
