"""What brokers agree on: the metadata, the store that keeps it, and the controller that alone changes it."""
