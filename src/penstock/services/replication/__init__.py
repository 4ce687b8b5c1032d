"""Following leaders, and being followed.

    replication   which leader each partition is fetched from; begin and end of it all
    fetcher       one loop per leader: asks, applies, and asks again
    copying       what a leader's answer does to one partition: append, cut, begin anew
    throttling    how fast replicas are copied that are to be copied slowly
    in_sync       asks the controller for changes of in-sync sets

The leader's side of a fetch is `apis.k01_fetch`; what is decided is in `core.replication`.
"""
