"""The replicas of this broker.

replica_manager    the table: finds replicas, and creates, changes and deletes them as the metadata says
replica            one replica: log, flushes, high watermark, reads, and the requests that wait for it
leader             what only the leader does: appends, followers' progress, ISR, advancing the high watermark
follower           what only a follower does: copies the leader's batches, adopts its high watermark
context            what all replicas share, and the interface by which they notify replication
replica_opener     recovers or creates the logs
checkpoint_writer  recovery points, log start offsets and high watermarks on disk
truncation         truncates a diverging log, with its checkpoints
directory_removal  renames and removes directories of deleted partitions
"""
