"""Transactions outside the coordinator: transaction markers, and verification before the first batch is appended.

    marker_appender      appends a transaction marker to one partition that this broker leads
    marker_sender        sends WriteTxnMarkers to the leaders of other partitions
    marker_writer        MarkerWriter: writes the markers of a prepared transaction, then completes the transaction
    produce_verifier     asks the coordinator before the first batch of a transaction is appended
    remote_coordinators  sends AddPartitionsToTxn to a coordinator on another broker
    request_batcher      collects items for other brokers into few requests

The coordinator's decisions are in `core.transactions`, the producer state of a partition is in `core.producer_state`,
and requests to other brokers are encoded in `cluster.peer_requests`.
"""
