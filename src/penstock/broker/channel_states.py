"""The states of a connection's channel, and every transition between them.

The state says whether the next request may start. Whether bytes may be read depends on more (`KafkaChannel.may_read`).
"""

from enum import Enum, auto
from typing import Final


class ChannelState(Enum):
    """Whether requests start."""

    READY = auto()  # the next request starts as soon as all of it has arrived
    BLOCKED = auto()  # a request is in flight, and no other starts before it is answered
    YIELDED = auto()  # this turn's budget is used up; other connections go first
    DRAINING = auto()  # no request starts any more; responses that are due are still sent
    CLOSED = auto()  # nothing is received or sent


class ChannelEvent(Enum):
    """What changes the state."""

    BLOCKING_REQUEST_STARTED = auto()
    BLOCKING_REQUEST_ENDED = auto()
    BUDGET_USED_UP = auto()
    TURN_CAME = auto()
    DRAIN = auto()
    CLOSE = auto()


_S, _E = ChannelState, ChannelEvent

TRANSITIONS: Final[dict[ChannelState, dict[ChannelEvent, ChannelState]]] = {
    _S.READY: {
        _E.BLOCKING_REQUEST_STARTED: _S.BLOCKED,
        _E.BUDGET_USED_UP: _S.YIELDED,
        _E.DRAIN: _S.DRAINING,
        _E.CLOSE: _S.CLOSED,
    },
    _S.BLOCKED: {
        _E.BLOCKING_REQUEST_ENDED: _S.READY,
        _E.DRAIN: _S.DRAINING,
        _E.CLOSE: _S.CLOSED,
    },
    _S.YIELDED: {
        _E.TURN_CAME: _S.READY,
        _E.DRAIN: _S.DRAINING,
        _E.CLOSE: _S.CLOSED,
    },
    # A handler may close its own connection before it says that it blocks the next request.
    _S.DRAINING: {
        _E.BLOCKING_REQUEST_STARTED: _S.DRAINING,
        _E.BLOCKING_REQUEST_ENDED: _S.DRAINING,
        _E.TURN_CAME: _S.DRAINING,
        _E.DRAIN: _S.DRAINING,
        _E.CLOSE: _S.CLOSED,
    },
    _S.CLOSED: {
        _E.BLOCKING_REQUEST_STARTED: _S.CLOSED,
        _E.BLOCKING_REQUEST_ENDED: _S.CLOSED,
        _E.TURN_CAME: _S.CLOSED,
        _E.DRAIN: _S.CLOSED,
        _E.CLOSE: _S.CLOSED,
    },
}
