"""Tells a person once that a broker does not answer and is tried again, and once that it answers again."""

from collections.abc import Callable

from penstock.client.errors import AnsweredError, ClientError, ConnectionLostError, NoAnswerError

# So often a refusal, as that of a partition without a leader, is tried again before it is told.
_REFUSALS_UNTOLD = 5


class Outages:
    """What `Client.retrying` and whoever gets answers report to; `say` gets a line now and then."""

    def __init__(self, bootstrap_servers: str, say: Callable[[str], None]) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._say = say
        self._away: str | None = None

    def failed(self, error: ClientError, tries: int) -> None:
        """An attempt failed after `tries` others, and another one follows."""
        if self._away is not None or not _is_worth_telling(error, tries):
            return
        if isinstance(error, AnsweredError):
            self._away = error.about
            self._say(f"{error}, trying again")
        else:
            self._away = self._bootstrap_servers if error.address is None else str(error.address)
            self._say(f"{self._away} does not answer, trying again")

    def answered(self) -> None:
        if self._away is not None:
            self._say(f"{self._away} answers again")
            self._away = None


def _is_worth_telling(error: ClientError, tries: int) -> bool:
    if isinstance(error, AnsweredError):
        return tries >= _REFUSALS_UNTOLD
    if isinstance(error, ConnectionLostError) and not isinstance(error, NoAnswerError):
        return tries > 0  # a broker that is stopped closes its connections, and another one leads at once
    return True
