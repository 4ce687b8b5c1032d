"""DescribeClientQuotas (key 48), v0-v1: an empty list, since there are no quotas; an invalid filter is rejected."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE_CONFIGS
from penstock.base.errors import ErrorCode, Refusal
from penstock.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

REQUEST = DescribeClientQuotasRequest
VERSIONS = (0, 1)
NEEDS = (Need(DESCRIBE_CONFIGS, CLUSTER),)

EXACT, DEFAULT, ANY = range(3)
ENTITY_TYPES = {"user", "client-id", "ip"}


def handle(_call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    refusal = _refusal(request.components)
    if refusal is None:
        return DescribeClientQuotasResponse(entries=[])
    return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)


def _refusal(components: list[ComponentData]) -> Refusal | None:
    seen: set[str] = set()
    for component in components:
        refusal = _component_refusal(component, seen)
        if refusal is not None:
            return refusal
        seen.add(component.entity_type)
    unknown = sorted(seen - ENTITY_TYPES)
    if unknown:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {unknown[0]}.")
    if "ip" in seen and len(seen) > 1:
        return Refusal(
            ErrorCode.INVALID_REQUEST, "A filter by ip cannot be combined with one by user or client-id."
        )
    return None


def _component_refusal(component: ComponentData, seen: set[str]) -> Refusal | None:
    entity_type, problem = component.entity_type, None
    if not entity_type:
        problem = "An entity type is empty."
    elif entity_type in seen:
        problem = f"Entity type {entity_type} appears more than once in the filter."
    elif component.match_type not in (EXACT, DEFAULT, ANY):
        problem = f"Unknown match type {component.match_type}."
    elif component.match_type == EXACT and component.match is None:
        problem = f"The exact match of {entity_type} has no string to match."
    elif component.match_type != EXACT and component.match is not None:
        problem = f"Only an exact match takes a string, and {entity_type} has one."
    return None if problem is None else Refusal(ErrorCode.INVALID_REQUEST, problem)
