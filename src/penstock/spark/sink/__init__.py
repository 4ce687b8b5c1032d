"""Writes rows to topics: `.write` and `.writeStream` of `format("penstock")`, exactly once or at least once.

writers     the interface that Spark calls, on the driver and in tasks
rows        the columns that a write accepts, and the partition of each row
sending     sends one task's rows, from Arrow to the broker
task        one attempt of a task: its rows, and its transaction
protocol    the commit protocol for exactly once; pure
deciding    commit and abort of a batch on the driver, step by step
ledger      decisions in a compacted topic, and transactions on a broker
"""
