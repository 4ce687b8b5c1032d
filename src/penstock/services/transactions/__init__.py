"""Transactions beyond their coordinator: what happens in the partitions they write to.

    markers              the end of a transaction in one partition that this broker leads
    remote_markers       the same in partitions that other brokers lead
    marker_writer        MarkerWriter: once an outcome is certain, markers to every partition, then COMPLETE
    verifying            asking the coordinator before the first batch of a transaction is taken
    remote_coordinators  asking one that is on another broker
    outboxes             what is asked of other brokers, gathered

What the coordinator decides is in `core.transactions`, the state of a partition's producers in `core.producer_state`.
"""
