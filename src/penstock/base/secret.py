"""A value that must not be logged or printed by accident: passwords, tokens, private keys."""

from typing import Final

_HIDDEN: Final = "(secret)"


class Secret:
    """Text that only `reveal` returns. Compared, hashed and pickled by its text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return self._text.__hash__()

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (self._text,)

    def __repr__(self) -> str:
        return _HIDDEN

    __str__ = __repr__
