"""UpdateFeatures (key 57), v0-v2: raises or lowers finalised feature levels, or only validates the request (v1).

All updates of a request are made, or none. Safe and unsafe downgrades are the same: no downgrade so far loses metadata.
Version 0 has a flag that allows downgrades in place of the upgrade type; version 2 has one error for all features.
"""

from penstock.apis.context import Call
from penstock.apis.forwarding import forwarding
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import ALTER, CLUSTER
from penstock.base.errors import Refusal
from penstock.cluster.features import FeatureUpdate, UpgradeType
from penstock.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

REQUEST = UpdateFeaturesRequest
VERSIONS = (0, 2)
NEEDS = (Need(ALTER, CLUSTER),)

TYPES_SINCE = 1
ONE_ANSWER_SINCE = 2


async def handle(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    # Brokers forward the request in the newest version, not in the client's.
    reply: Reply = _answered_by_controller(call, _in_newest_version(call, request))
    answer: UpdateFeaturesResponse = await reply.response()
    if call.version < ONE_ANSWER_SINCE and answer.error_code == 0:
        answer.results = [
            UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates
        ]
    return answer


def _in_newest_version(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesRequest:
    if call.version >= TYPES_SINCE:
        return request
    lowers = call.services.cluster.image.features.level
    return UpdateFeaturesRequest(
        timeout_ms=request.timeout_ms,
        feature_updates=[
            FeatureUpdateKey(
                feature=update.feature,
                max_version_level=update.max_version_level,
                upgrade_type=UpgradeType.SAFE_DOWNGRADE
                if update.allow_downgrade and update.max_version_level < lowers(update.feature)
                else UpgradeType.UPGRADE,
            )
            for update in request.feature_updates
        ],
    )


async def _update(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    updates = {
        update.feature: FeatureUpdate(update.max_version_level, update.upgrade_type)
        for update in request.feature_updates
    }
    outcome = await call.services.cluster.controller.update_features(
        updates, validate_only=request.validate_only
    )
    if isinstance(outcome, Refusal):
        return UpdateFeaturesResponse(error_code=outcome.code, error_message=outcome.message)
    return UpdateFeaturesResponse()


_answered_by_controller = forwarding(
    lambda call, request: Reply(_update(call, request)), UpdateFeaturesResponse
)
