"""Bytes in any of their shapes."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
