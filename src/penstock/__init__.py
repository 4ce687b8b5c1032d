"""Penstock: a message queue that speaks Kafka's protocol."""
