"""The cluster's metadata, the stores that hold it, and how brokers load it and know each other."""
