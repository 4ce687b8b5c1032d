"""The client's errors.

    PenstockError
    └── ClientError
        ├── UnreachableError        no connection could be made
        ├── ConnectionLostError     a connection ended before the answer; the request may have been done
        │   └── NoAnswerError           the request timed out
        ├── AuthenticationError     TLS or SASL failed; a retry cannot help
        ├── UnsupportedError        the broker does not have the API, or no version of it that we know
        └── AnsweredError           the broker answered with an error code

Where a request is about many things at once, an error about one of them is a `Refusal` in its result instead.
"""

import errno

from penstock.base.errors import ErrorCode, PenstockError, Refusal
from penstock.client.addresses import Address


class ClientError(PenstockError):
    """An error between this client and its cluster; the message is one line for people."""

    address: Address | None = None  # of the broker that failed, if it is one

    @property
    def retriable(self) -> bool:
        """Whether a retry may succeed."""
        return False


class UnreachableError(ClientError):
    """No connection to a broker could be made."""

    @property
    def retriable(self) -> bool:
        return True


class ConnectionLostError(ClientError):
    """The connection ended before the response came."""

    @property
    def retriable(self) -> bool:
        return True


class NoAnswerError(ConnectionLostError):
    """The broker did not answer in time, and the connection was closed."""


class AuthenticationError(ClientError):
    """TLS or SASL failed, or one side expects it and the other does not use it."""


class UnsupportedError(ClientError):
    """The broker does not support this request."""


class AnsweredError(ClientError):
    """The broker answered with an error code."""

    def __init__(self, refusal: Refusal, about: str) -> None:
        super().__init__(f"{about}: {describe(refusal)}")
        self.refusal = refusal
        self.about = about

    @property
    def retriable(self) -> bool:
        return self.refusal.code.retriable


def describe(refusal: Refusal) -> str:
    """A refusal as one line: the broker's message if there is one, and always the code's name."""
    if not refusal.message:
        return refusal.code.name
    message = " ".join(refusal.message.split()).rstrip(".")
    return f"{message} ({refusal.code.name})"


def error_code(number: int) -> ErrorCode:
    """The error code of a number; UNKNOWN_SERVER_ERROR for numbers newer than we know."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refusal_of(number: int, message: str | None = None) -> Refusal | None:
    """The refusal of an error code; None for code 0."""
    return Refusal(error_code(number), message) if number else None


def raise_if_refused(number: int, message: str | None, about: str) -> None:
    if number:
        raise AnsweredError(Refusal(error_code(number), message), about)


_CONNECT_PROBLEMS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EHOSTUNREACH: "no route to that host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "no answer",
}


def connect_problem(error: OSError) -> str:
    """Why a connection could not be made, in a few words without the address."""
    if error.errno in _CONNECT_PROBLEMS:
        return _CONNECT_PROBLEMS[error.errno]
    text = str(error)
    # A name with several addresses fails with all their errors in one text, and no number.
    for number, words in _CONNECT_PROBLEMS.items():
        if f"[Errno {number}]" in text:
            return words
    return (error.strerror or text).rstrip(".")
