"""The controller's decisions, without I/O: a metadata image or a partition's state in, another one out."""
