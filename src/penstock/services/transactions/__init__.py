"""Transactions beyond their coordinator: what happens in the partitions they write to.

    markers              writes the end of a transaction to one partition that this broker leads
    remote_markers       has other brokers write it to partitions that they lead
    marker_writer        MarkerWriter: once an outcome is certain, markers to every partition, then COMPLETE
    verifying            asks the coordinator before the first batch of a transaction is appended
    remote_coordinators  asks a coordinator on another broker
    outboxes             requests to other brokers, gathered into few

What the coordinator decides is in `core.transactions`, the state of a partition's producers in `core.producer_state`;
requests to other brokers are made in `cluster.peer_requests`.
"""
