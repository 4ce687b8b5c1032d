"""Reads records of another replica as a consumer does: any replica answers below the high watermark, and this broker's
own log end offset is not reported."""

from penstock.base.errors import ErrorCode
from penstock.client.connection import Connection
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic


async def read_records(
    connection: Connection, topic_id: bytes, index: int, *, offset: int, max_bytes: int
) -> memoryview | ErrorCode:
    """The records of a replica from an offset on, without waiting for more; or its error."""
    asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_id=topic_id, partitions=[asked])],
    )
    answer = await connection.ask(request, FetchResponse)
    data = answer.responses[0].partitions[0] if answer.responses else None
    code = ErrorCode(answer.error_code if data is None else data.error_code)
    if data is None or code is not ErrorCode.NONE:
        return code
    records = data.records or memoryview(b"")
    assert isinstance(records, memoryview)  # as the codec reads them
    return records
