"""The types of objects that hold bytes."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
