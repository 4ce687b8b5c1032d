"""Produce (key 0), v3-v13: between the wire and `services.producing`.

Versions 0-2 are advertised, as Apache Kafka does (older librdkafka loses features otherwise), and refused: their
record formats were removed from Kafka. A client of an older version gets nothing that its version does not have: zstd,
TRANSACTION_ABORTABLE, leader hints.
"""

from penstock.apis.context import Call
from penstock.apis.leader_hints import Hint, endpoints, hint
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import TOPIC, TRANSACTIONAL_ID, WRITE
from penstock.base.errors import ErrorCode, PeerError
from penstock.services.producing import (
    ACKS_NONE,
    AppendOutcome,
    PartitionRecords,
    PendingAppends,
    ProduceOptions,
)
from penstock.services.replicas.leader import Appended
from penstock.services.topic_rules import AppendError
from penstock.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

REQUEST = ProduceRequest
VERSIONS = (3, 13)
NEEDS = (
    Need(WRITE, TRANSACTIONAL_ID, "transactional_id"),
    Need(WRITE, TOPIC, "topic_data.name", ids="topic_data.topic_id"),
)
ADVERTISED_FROM = 0
CANCEL_ON_DISCONNECT = True

ZSTD_SINCE = 7
HINTS_SINCE = 10  # the version with leader hints
ABORTABLE_SINCE = 11  # clients know TRANSACTION_ABORTABLE
ADDING_SINCE = 12  # clients of transactions version 2: the partition's leader adds it to the transaction
TOPIC_IDS_SINCE = 13


def handle(call: Call, request: ProduceRequest) -> ProduceResponse | Reply | None:
    version = call.version
    batches = []
    for topic in request.topic_data:
        name = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.name
        for data in topic.partition_data:
            records = data.records
            assert records is None or isinstance(records, memoryview)  # as the codec reads them
            batches.append(PartitionRecords(name, data.index, records))
    options = ProduceOptions(
        request.acks,
        request.timeout_ms,
        request.transactional_id,
        adds_partitions=version >= ADDING_SINCE,
        knows_abortable=version >= ABORTABLE_SINCE,
        allows_zstd=version >= ZSTD_SINCE,
    )
    outcomes = call.services.producing.append(batches, options)
    if isinstance(outcomes, PendingAppends):
        return Reply(_respond_later(call, request, outcomes), next_may_start=outcomes.are_in_log)
    return _respond(call, request, outcomes)


async def _respond_later(
    call: Call, request: ProduceRequest, pending: PendingAppends
) -> ProduceResponse | None:
    return _respond(call, request, await pending)


def _respond(call: Call, request: ProduceRequest, outcomes: list[AppendOutcome]) -> ProduceResponse | None:
    response = ProduceResponse(responses=[])
    has_errors = False
    position = 0
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            outcome = outcomes[position]
            position += 1
            if isinstance(outcome, Appended):
                answer = PartitionProduceResponse(
                    index=data.index,
                    base_offset=outcome.base_offset,
                    log_append_time_ms=outcome.log_append_time_ms,
                    log_start_offset=outcome.log_start_offset,
                )
            else:
                answer = _error(data.index, outcome)
                has_errors = True
            answers.append(answer)
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if has_errors and request.acks != ACKS_NONE and call.version >= HINTS_SINCE:
        _add_hints(call, response)
    if request.acks == ACKS_NONE:
        _raise_first_error(response)
        return None
    return response


def _error(index: int, error: AppendError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=error.log_append_time_ms,
        log_start_offset=error.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=error.message)
            for number in error.bad_records
        ],
        error_message=error.message,
    )


def _raise_first_error(response: ProduceResponse) -> None:
    """With acks=0 no response is sent; the client learns of an error by the closed connection."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise PeerError(f"produce with acks=0 to {topic.name}-{partition.index} failed: {code.name}")


def _add_hints(call: Call, response: ProduceResponse) -> None:
    """Add the current leaders of partitions that this broker does not lead (KIP-951)."""
    hints: list[Hint] = []
    for topic in response.responses:
        key = topic.topic_id if call.version >= TOPIC_IDS_SINCE else topic.name
        for partition in topic.partition_responses:
            hinted = hint(call, partition.error_code, key, partition.index)
            if hinted is not None:
                partition.current_leader = LeaderIdAndEpoch(
                    leader_id=hinted.leader.node_id, leader_epoch=hinted.leader_epoch
                )
                hints.append(hinted)
    if hints:
        response.node_endpoints = [
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(hints)
        ]
