"""Reports once that a broker does not answer and is retried, and once that it answers again."""

from collections.abc import Callable

from penstock.client.errors import AnsweredError, ClientError, ConnectionLostError, NoAnswerError

# An error code, as for a partition without a leader, is retried this often before it is reported.
_SILENT_RETRIES = 5


class Outages:
    """Calls `say` with a line when an outage begins or ends; `failed` is to be the client's `Client.retrying`."""

    def __init__(self, bootstrap_servers: str, say: Callable[[str], None]) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._say = say
        self._away: str | None = None

    def failed(self, error: ClientError, tries: int) -> None:
        """An attempt failed after `tries` others, and will be retried."""
        if self._away is not None or not _is_worth_reporting(error, tries):
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


def _is_worth_reporting(error: ClientError, tries: int) -> bool:
    if isinstance(error, AnsweredError):
        return tries >= _SILENT_RETRIES
    if isinstance(error, ConnectionLostError) and not isinstance(error, NoAnswerError):
        return tries > 0  # a stopping broker closes its connections, and another one leads at once
    return True
