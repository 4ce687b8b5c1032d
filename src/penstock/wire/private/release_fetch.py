"""ReleaseFetch (key 10003), v0: a follower asks the leader to complete the delayed fetch of the same connection.

Responses are sent in the order of requests, so the delayed fetch is answered first, with the records that are there.
"""

from penstock.schema.words import Message


class ReleaseFetchRequest(Message):
    API_KEY = 10003
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0


class ReleaseFetchResponse(Message):
    API_KEY = 10003
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
