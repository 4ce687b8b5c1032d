"""Offset commits as bytes, as a consumer outside any group's membership sends them: OffsetCommit v9."""

from bench.load.coordinators import GROUP, find_coordinator
from bench.load.frames import CORRELATION_ID, WRONG, Answer, Frame, answer_of
from bench.load.talks import hold
from penstock.schema.codec import encode
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_VERSION = 9


def commit_frames(bootstrap: str, topic: str, *, groups: int) -> list[Frame]:
    """For each of as many groups, a request that commits an offset of the topic's first partition."""
    names = [f"{topic}-group-{number}" for number in range(groups)]
    hold(bootstrap, [find_coordinator(GROUP, name) for name in names])
    return [_frame(topic, name) for name in names]


def _frame(topic: str, group: str) -> Frame:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    header = RequestHeader(OffsetCommitRequest.API_KEY, _VERSION, CORRELATION_ID, "bench")
    return tuple(frame_request(header, encode(request, _VERSION)))


def good_commit(topic: str) -> Answer:
    return answer_of(_response(topic, 0), _response(topic, WRONG), version=_VERSION)


def _response(topic: str, error_code: int) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=error_code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=topic, partitions=[partition])])
