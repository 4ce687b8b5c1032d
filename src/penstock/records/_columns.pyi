"""What `columns` uses of the compiled loops: `plain_columns` in C. Where they were not built, the import fails."""

from penstock.records.plain_columns import Block, Columns, choose_partitions

class CorruptError(ValueError): ...

__all__ = ["Block", "Columns", "CorruptError", "choose_partitions"]
