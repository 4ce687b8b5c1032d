"""Rows to topics: `.write` and `.writeStream` of `format("penstock")`, exactly once or at least once.

writers     what Spark asks, on the driver and in tasks
rows        which columns a write takes, and which partition each row goes to
sending     one task's rows, from Arrow to the broker
task        one attempt of a task: its rows, and its transaction
protocol    what makes a batch count exactly once; pure
deciding    the driver's part of a batch's end, in its order
ledger      decisions in a compacted topic, and transactions on a broker
"""
