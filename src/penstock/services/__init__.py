"""What request handlers work with: live partitions, waiting fetches, shared syncs, metrics."""
