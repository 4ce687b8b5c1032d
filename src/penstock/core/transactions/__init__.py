"""The state of the transaction coordinator in one partition of `__transaction_state`, and everything it decides.

    states.py            the states of a transactional id, and which follows which
    transaction.py       TransactionMetadata: the state of one id, and its record
    requests.py          requests and responses
    init_producer_id.py  InitProducerId: producer epochs, fencing, prepared transactions that are kept
    add_partitions.py    AddPartitionsToTxn: partitions added to a transaction, or verified to be in it
    end_transaction.py   EndTxn, of both versions; the coordinator's own aborts
    timeouts.py          transaction timeouts, expiration of ids, markers still to be written
    listing.py           DescribeTransactions and ListTransactions
    shard.py             `TransactionShard`: all ids of one partition

A transaction ends in three steps: PREPARE_COMMIT or PREPARE_ABORT is written, and nothing can change the outcome
any more; markers go to every partition; COMPLETE_COMMIT or COMPLETE_ABORT is written. The prepared
`TransactionMetadata` is the effect of the decision that prepares it; `complete` is called when all its markers are
written.

Version 2 (KIP-890) makes delayed requests harmless: every transaction ends with a new epoch, the markers carry it, and
requests with the old epoch are rejected by the coordinator and by partitions. Clients of version 2
send EndTxn v5 and add partitions by writing to them.
"""
