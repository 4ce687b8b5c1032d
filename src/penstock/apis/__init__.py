"""One module per Kafka API key, `kNN_name.py`: the only place where protocol meets state.

A module holds `VERSIONS` (the lowest and highest version it answers), `REQUEST` (the message class) and
`handle(call, request)`, which returns the response, a coroutine that will, or None where nothing is to be sent
back. While a coroutine runs, the connection's next request waits; wrapped in `Late`, it says that all that depends on
order is done, and only the answer is late; `Held` is a `Late` that the client's next request ends. `WAITS = True` says
that coroutines only wait for others, and are broken off when the client goes away; all else is finished, so that no
change is left half made. `PATIENT = True` says that requests take turns (`broker.turns`): nobody's records wait for
them, and many may come at once. `handle_unsupported(call)`, where there is one, answers (in version 0) requests of
other versions. There is nothing to register: being in this directory is enough, and the version ranges are what
ApiVersions tells clients; `ANSWERED_BY_CONTROLLER`, a response's class, says that a request is forwarded to the
controller; `ADVERTISED_ONLY_WITH` names settings without which a version, and those above it, are kept from them.
What the protocol has and no module answers is refused by `unserved`.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from penstock.apis import unserved
from penstock.apis.context import Call
from penstock.apis.forwarding import forwarding
from penstock.apis.telling import telling
from penstock.base.errors import PeerError
from penstock.base.settings import Setting, Settings
from penstock.services.metrics import Histogram, Metrics
from penstock.wire.apis import APIS
from penstock.wire.headers import RequestHeader, is_known
from penstock.wire.messages import request_type

_MODULE_NAME = re.compile(r"k(\d+)_(\w+)\Z")

Handler = Callable[[Call, Any], "Any | Coroutine[Any, Any, Any]"]


class ServedApi(NamedTuple):
    """One API as the connection needs it."""

    key: int
    name: str
    versions: tuple[int, int]
    advertised_from: int
    request: type[Any]
    handle: Handler
    handle_unsupported: Callable[[Call], Any] | None
    waits: bool
    patient: bool
    seconds: Histogram
    needs: Mapping[int, Setting[bool]]  # versions that are offered only where a setting is on

    def highest_advertised(self, settings: Settings) -> int:
        """The highest version that clients are told of."""
        missing = [version for version, setting in self.needs.items() if not settings[setting]]
        return min([self.versions[1], *(version - 1 for version in missing)])


class ApiTable:
    """The APIs this broker answers."""

    def __init__(self, metrics: Metrics) -> None:
        self._apis = {api.key: api for api in _discover(metrics)}
        self._unserved: dict[int, ServedApi] = {}  # those that were asked for
        self._unserved_seconds = _seconds(metrics, "unserved")

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The version range of every API, by key."""
        return {key: api.versions for key, api in sorted(self._apis.items())}

    def advertised(self, settings: Settings) -> dict[int, tuple[int, int]]:
        """What ApiVersions tells clients, by key."""
        return {
            key: (api.advertised_from, api.highest_advertised(settings))
            for key, api in sorted(self._apis.items())
        }

    def find(self, header: RequestHeader) -> ServedApi:
        """The API a request asks for, or one that refuses it.

        Raises PeerError for what is not in the protocol: Kafka closes the connection as well.
        """
        key, version = header.api_key, header.api_version
        api = self._apis.get(key)
        if api is not None:
            lowest, highest = api.versions
            if lowest <= version <= highest or api.handle_unsupported is not None:
                return api
        if is_known(key, version):
            return self._refusing(key)
        if key in APIS:
            raise PeerError(f"{APIS[key].name} has no version {version}")
        raise PeerError(f"there is no API key {key}")

    def _refusing(self, key: int) -> ServedApi:
        if key not in self._unserved:
            declared = APIS[key]
            assert declared.versions is not None  # or no version of it is known
            self._unserved[key] = ServedApi(
                key=key,
                name=declared.name,
                versions=declared.versions,
                advertised_from=declared.versions[0],
                request=request_type(key),
                handle=unserved.refuse,
                handle_unsupported=None,
                waits=False,
                patient=False,
                seconds=self._unserved_seconds,
                needs={},
            )
        return self._unserved[key]


def _discover(metrics: Metrics) -> list[ServedApi]:
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
                handle=telling(name, _handler(module)),
                handle_unsupported=getattr(module, "handle_unsupported", None),
                waits=getattr(module, "WAITS", False),
                patient=getattr(module, "PATIENT", False),
                seconds=_seconds(metrics, name),
                needs=getattr(module, "ADVERTISED_ONLY_WITH", {}),
            )
        )
    return apis


def _seconds(metrics: Metrics, api: str) -> Histogram:
    return metrics.histogram(
        "penstock_request_seconds", "Time from a request's arrival to its answer.", api=api
    )


def _handler(module: Any) -> Handler:
    response = getattr(module, "ANSWERED_BY_CONTROLLER", None)
    handle: Handler = module.handle
    return handle if response is None else forwarding(handle, response)
