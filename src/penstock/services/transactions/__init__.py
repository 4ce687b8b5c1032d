"""Transactions beyond their coordinator: what happens in the partitions they write to.

    markers        the end of a transaction in one partition
    marker_writer  MarkerWriter: once an outcome is certain, markers to every partition, then COMPLETE
    verifying      asking the coordinator before the first batch of a transaction is taken

What the coordinator decides is in `core.transactions`, the state of a partition's producers in `core.producers`.
"""
