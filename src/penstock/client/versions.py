"""Version negotiation: the newest version of a request that both sides know."""

from collections.abc import Iterable, Mapping

from penstock.client.errors import UnsupportedError
from penstock.schema.words import Message
from penstock.wire.messages.api_versions import ApiVersion
from penstock.wire.private import api_name


class Versions:
    """What one broker offers, by API key."""

    def __init__(self, offered: Mapping[int, tuple[int, int]]) -> None:
        self._offered = dict(offered)

    @classmethod
    def of(cls, api_keys: Iterable[ApiVersion]) -> "Versions":
        return cls({api.api_key: (api.min_version, api.max_version) for api in api_keys})

    def including(self, more: Mapping[int, tuple[int, int]]) -> "Versions":
        """With APIs that ApiVersions does not list: those between brokers."""
        return Versions({**self._offered, **more})

    def offers(self, request: type[Message]) -> bool:
        offered = self._offered.get(request.API_KEY)
        return offered is not None and bool(_common(request.VERSIONS, offered))

    def pick(self, request: type[Message], *, at_most: int | None = None) -> int:
        """The newest version both know, not newer than `at_most`; UnsupportedError if there is none."""
        ours = request.VERSIONS
        if at_most is not None:
            ours = (ours[0], min(ours[1], at_most))
        name = api_name(request.API_KEY)
        offered = self._offered.get(request.API_KEY)
        if offered is None:
            raise UnsupportedError(f"the broker does not know {name}")
        common = _common(ours, offered)
        if not common:
            raise UnsupportedError(
                f"the broker knows {name} in versions {offered[0]}-{offered[1]}, "
                f"this client needs one of {ours[0]}-{ours[1]}"
            )
        return common[-1]


def _common(ours: tuple[int, int], theirs: tuple[int, int]) -> range:
    return range(max(ours[0], theirs[0]), min(ours[1], theirs[1]) + 1)
