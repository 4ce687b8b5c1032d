"""Transactions as their coordinator sees them: who may write under a transactional id, to where, and how it ends.

    states.py        the states of a transactional id, and which follows which
    transaction.py   all that is known of one id, and its record in __transaction_state
    requests.py      what is asked and answered
    initializing.py  InitProducerId: epochs, fencing, prepared transactions that are kept
    adding.py        partitions added to a transaction, or verified to be in it
    ending.py        EndTxn, of both versions; timeouts
    listing.py       describing one, listing many
    shard.py         `TransactionShard`: all ids of one partition of __transaction_state

A transaction ends in three steps: PREPARE_COMMIT or PREPARE_ABORT is written, and nothing can change the outcome
any more; markers go to every partition; COMPLETE_COMMIT or COMPLETE_ABORT is written. The prepared `Transaction`
is the effect of the decision that prepares it; the shard takes `complete` when its markers are all written.

Version 2 (KIP-890) is what makes a late request harmless: every transaction ends with a new epoch, the markers bear
it, and whatever still travels under the old one is refused by coordinator and partitions alike. Clients of version 2
send EndTxn v5 and add partitions by writing to them.
"""
