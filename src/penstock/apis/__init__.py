"""One module per Kafka API key, `kNN_name.py`: the only place where protocol meets state.

A module in this directory is found by its name; there is nothing to register. It declares:

- `VERSIONS`: the lowest and highest version it answers. `ADVERTISED_FROM`, where given, is the lowest version that
  ApiVersions lists; `ADVERTISED_ONLY_WITH` maps a version to the setting without which it and later ones are left out.
- `REQUEST`: the request's message class.
- `handle(call, request)`: returns the response, None where nothing is sent back, or a `Reply` where the response has
  to be awaited (`apis.reply`). An `async def handle` counts as one that returns a `Reply` to itself.
- `handle_unsupported(call)`: answers, in version 0, a request of a version outside `VERSIONS`.
- `CANCEL_ON_DISCONNECT = True`: its coroutines only wait, and are cancelled when the client disconnects. All others
  run to their end, so that no change is left half made.
- `LOW_PRIORITY = True`: no records wait for its requests, and many may come at once (a rebalance, a dashboard). They
  share a few milliseconds of each iteration of the event loop (`broker.time_sliced_queue`).
- `BROKERS_ONLY = True`: not listed by ApiVersions, and answered with CLUSTER_AUTHORIZATION_FAILED unless a broker of
  this cluster asks (`apis.broker_callers`).
- `NEEDS`: the access rights that a request needs (`apis.needs`); empty only if a client needs none.
- `ANSWERED_BY_CONTROLLER`: the response's message class; the request is forwarded to the controller.

A request that is in the protocol and has no module here is answered by `unserved`. Keys from 10000 on are our own
(`wire.private`); ApiVersions never lists them.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from penstock.apis import unserved
from penstock.apis.broker_callers import brokers_only
from penstock.apis.context import Call
from penstock.apis.error_logging import logging_errors
from penstock.apis.forwarding import forwarding
from penstock.apis.needs import authorizing
from penstock.apis.reply import Reply
from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.base.settings import Setting, Settings
from penstock.core.access import Authorizer
from penstock.schema.codec import Reader, reader_of, unreadable, writer_of
from penstock.services.metrics import Histogram, Metrics
from penstock.wire.apis import APIS
from penstock.wire.headers import is_known, response_header
from penstock.wire.messages import request_type, response_type

_MODULE_NAME = re.compile(r"k(\d+)_(\w+)\Z")

# Returns a response, None or a Reply.
Handler = Callable[[Call, Any], Any]


class ServedApi(NamedTuple):
    """One API as the connection needs it."""

    key: int
    name: str
    versions: tuple[int, int]
    advertised_from: int
    request: type[Any]
    handle: Handler
    handle_unsupported: Callable[[Call], Any] | None
    cancel_on_disconnect: bool
    low_priority: bool
    brokers_only: bool
    seconds: Histogram
    needs: Mapping[int, Setting[bool]]  # versions that are advertised only where a setting is on

    def answers(self, version: int) -> bool:
        """Whether a request of this version gets more than UNSUPPORTED_VERSION."""
        lowest, highest = self.versions
        return lowest <= version <= highest or self.handle_unsupported is not None

    def highest_advertised(self, settings: Settings) -> int:
        """The highest version that ApiVersions lists."""
        missing = [version for version, setting in self.needs.items() if not settings[setting]]
        return min([self.versions[1], *(version - 1 for version in missing)])


def _read_nothing(_frame: Buffer, _position: int, _elements_max: int) -> None:
    """Reads a request of a version whose shape is not served."""


class ServedVersion:
    """One version of an API, with all that a connection needs for each of its requests.

    Where the request's version is outside the API's range, nothing is read and `handle_unsupported` answers it.
    """

    __slots__ = (
        "api",
        "cancel_on_disconnect",
        "handle",
        "is_supported",
        "low_priority",
        "observe_seconds",
        "read",
        "response_header",
        "version",
        "write",
    )

    def __init__(self, api: ServedApi, version: int) -> None:
        lowest, highest = api.versions
        self.is_supported = lowest <= version <= highest
        self.api = api
        self.version = version if self.is_supported else 0  # of the response
        self.low_priority = api.low_priority
        self.cancel_on_disconnect = api.cancel_on_disconnect
        self.handle = api.handle
        self.read: Reader = _read_nothing
        if self.is_supported:
            self.read = reader_of(api.request, version)
        else:
            assert api.handle_unsupported is not None
            self.handle = _without_request(api.handle_unsupported)
        self.write = writer_of(response_type(api.key), self.version)
        self.response_header = response_header(api.key, self.version)
        self.observe_seconds = api.seconds.observe

    def unreadable(self, error: Exception) -> PeerError:
        """What to raise when `read` fails with one of `UNREADABLE`."""
        return unreadable(self.api.request, self.version, error)


def _without_request(handle_unsupported: Callable[[Call], Any]) -> Handler:
    return lambda call, _request: handle_unsupported(call)


class ApiTable:
    """The APIs this broker answers."""

    def __init__(self, metrics: Metrics, authorizer: Authorizer) -> None:
        self._apis = {api.key: api for api in _discover(metrics, authorizer)}
        # The results of `find`; connections look here first.
        self.by_key_and_version: dict[tuple[int, int], ServedVersion] = {}
        self._unserved: dict[int, ServedApi] = {}  # made at the first request
        self._unserved_seconds = _seconds(metrics, "unserved")

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The version range of every API, by key."""
        return {key: api.versions for key, api in sorted(self._apis.items())}

    def advertised(self, settings: Settings) -> dict[int, tuple[int, int]]:
        """The version ranges that ApiVersions lists, by key."""
        return {
            key: (api.advertised_from, api.highest_advertised(settings))
            for key, api in sorted(self._apis.items())
            if key in APIS and not api.brokers_only
        }

    @property
    def between_brokers(self) -> dict[int, tuple[int, int]]:
        """The version ranges of the APIs that only brokers may ask, by key."""
        return {key: api.versions for key, api in sorted(self._apis.items()) if api.brokers_only}

    def find(self, api_key: int, api_version: int) -> ServedVersion:
        """The version of an API that serves a request, or one that answers UNSUPPORTED_VERSION.

        Raises PeerError for a key or version that is not in the protocol: Kafka closes the connection, too.
        """
        api = self._apis.get(api_key)
        if api is None or not api.answers(api_version):
            if not is_known(api_key, api_version):
                if api_key in APIS:
                    raise PeerError(f"{APIS[api_key].name} has no version {api_version}")
                raise PeerError(f"there is no API key {api_key}")
            api = self._refusing(api_key)
        served = ServedVersion(api, api_version)
        if served.is_supported:  # do not keep versions that a client made up
            self.by_key_and_version[api_key, api_version] = served
        return served

    def _refusing(self, key: int) -> ServedApi:
        if key not in self._unserved:
            declared = APIS[key]
            assert declared.versions is not None  # else no version of it is in the protocol
            self._unserved[key] = ServedApi(
                key=key,
                name=declared.name,
                versions=declared.versions,
                advertised_from=declared.versions[0],
                request=request_type(key),
                handle=unserved.refuse,
                handle_unsupported=None,
                cancel_on_disconnect=False,
                low_priority=False,
                brokers_only=False,
                seconds=self._unserved_seconds,
                needs={},
            )
        return self._unserved[key]


def _discover(metrics: Metrics, authorizer: Authorizer) -> list[ServedApi]:
    apis = []
    for module_info in pkgutil.iter_modules(__path__):
        match = _MODULE_NAME.match(module_info.name)
        if match is None:
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        name = match[2]
        apis.append(
            ServedApi(
                key=int(match[1]),
                name=name,
                versions=module.VERSIONS,
                advertised_from=getattr(module, "ADVERTISED_FROM", module.VERSIONS[0]),
                request=module.REQUEST,
                handle=logging_errors(name, _handler(int(match[1]), module, authorizer)),
                handle_unsupported=getattr(module, "handle_unsupported", None),
                cancel_on_disconnect=getattr(module, "CANCEL_ON_DISCONNECT", False),
                low_priority=getattr(module, "LOW_PRIORITY", False),
                brokers_only=getattr(module, "BROKERS_ONLY", False),
                seconds=_seconds(metrics, name),
                needs=getattr(module, "ADVERTISED_ONLY_WITH", {}),
            )
        )
    return apis


def _seconds(metrics: Metrics, api: str) -> Histogram:
    return metrics.histogram(
        "penstock_request_seconds", "Time from a request's arrival to its answer.", api=api
    )


def _handler(key: int, module: Any, authorizer: Authorizer) -> Handler:
    handle: Handler = _replying(module.handle) if iscoroutinefunction(module.handle) else module.handle
    handle = authorizing(handle, module.NEEDS, authorizer)
    if getattr(module, "BROKERS_ONLY", False):
        handle = brokers_only(handle, key)
    response = getattr(module, "ANSWERED_BY_CONTROLLER", None)
    return handle if response is None else forwarding(handle, response)


def _replying(handle: Handler) -> Handler:
    """A handler that returns a Reply to the coroutine function `handle`."""
    return lambda call, request: Reply(handle(call, request))
