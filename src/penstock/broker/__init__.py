"""The composition root: connections, configuration, background work, and the broker that ties them together."""
