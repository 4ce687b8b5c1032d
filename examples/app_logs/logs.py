"""What services write: which services there are, who calls whom, and when an event counts. Data only.

A service writes one event per request that it answered, when it has answered it: what it calls writes first. `calls`
says how many requests to others it took, so that the stitching knows when a trace is complete.
"""

from typing import Final, NamedTuple

TOPIC: Final = "app-logs"
ALERTS_TOPIC: Final = "alerts"
TRACES_TOPIC: Final = "traces"
DEAD_LETTERS_TOPIC: Final = "app-logs-dead-letters"

# What becomes of a record; `parsing` has the rules.
VALID: Final = "valid"
MALFORMED: Final = "malformed"
LATE: Final = "late"
EARLY: Final = "early"

ALLOWED_LATENESS_S: Final = 10
ALLOWED_SKEW_S: Final = 2

# A trace that is not complete waits until there are events that are so much younger; more than events may be late.
TRACE_TIMEOUT_S: Final = 15

# The first status that is the service's fault, not the caller's.
ERROR_STATUS: Final = 500


class Call(NamedTuple):
    """A request that an endpoint makes with some probability."""

    service: str
    endpoint: str
    probability: float


class Endpoint(NamedTuple):
    """What one endpoint does: how long by itself, in the middle of all cases, and whom it calls."""

    own_latency_ms: float
    calls: tuple[Call, ...] = ()


ENDPOINTS: Final[dict[tuple[str, str], Endpoint]] = {
    ("gateway", "GET /products"): Endpoint(4, (Call("catalogue", "GET /products", 1.0),)),
    ("gateway", "GET /orders"): Endpoint(4, (Call("orders", "GET /orders", 1.0),)),
    ("gateway", "POST /orders"): Endpoint(6, (Call("orders", "POST /orders", 1.0),)),
    ("catalogue", "GET /products"): Endpoint(12, (Call("inventory", "GET /stock", 0.5),)),
    ("orders", "GET /orders"): Endpoint(10, (Call("shipping", "GET /parcels", 0.4),)),
    ("orders", "POST /orders"): Endpoint(
        15,
        (
            Call("inventory", "POST /reservations", 1.0),
            Call("payments", "POST /charges", 1.0),
            Call("shipping", "POST /parcels", 0.8),
        ),
    ),
    ("inventory", "GET /stock"): Endpoint(6),
    ("inventory", "POST /reservations"): Endpoint(14),
    ("payments", "POST /charges"): Endpoint(60, (Call("fraud", "POST /scores", 0.3),)),
    ("fraud", "POST /scores"): Endpoint(25),
    ("shipping", "GET /parcels"): Endpoint(8),
    ("shipping", "POST /parcels"): Endpoint(18),
}

# What people ask the gateway for, and how often.
ENTRIES: Final[tuple[tuple[str, float], ...]] = (
    ("GET /products", 0.6),
    ("GET /orders", 0.25),
    ("POST /orders", 0.15),
)
ENTRY_SERVICE: Final = "gateway"
