"""One module per API, each with its request, its response and the structs in them.

They are imported one by one, when first needed; this package imports none of them.
"""

from importlib import import_module

from penstock.schema.words import Message
from penstock.wire.apis import APIS
from penstock.wire.private import PRIVATE_APIS


def request_type(api_key: int) -> type[Message]:
    """The request of an API; KeyError if there is none here."""
    return _message_type(api_key, "Request")


def response_type(api_key: int) -> type[Message]:
    """The response of an API; KeyError if there is none here."""
    return _message_type(api_key, "Response")


def _message_type(api_key: int, suffix: str) -> type[Message]:
    package, apis = ("private", PRIVATE_APIS) if api_key in PRIVATE_APIS else ("messages", APIS)
    api = apis[api_key]
    if api.module is None:
        raise KeyError(api_key)
    module = import_module(f"penstock.wire.{package}.{api.module}")
    shape: type[Message] = getattr(module, api.name + suffix)
    return shape
