"""The response to a request that is refused as a whole, built from the schemas of request and response.

If the response has a top-level error code, only that is set. If it has none, or if the error is about the resources in
the request, the response names the same resources as the request, each with the error code.
"""

from typing import Any, Final

from penstock.base.errors import ErrorCode
from penstock.schema.words import FieldKind, Message, Struct, string
from penstock.wire.messages import response_type

_CODES: Final = ("error_code", "partition_error_code")
_ALTER_REPLICA_LOG_DIRS: Final = 34
_MESSAGE: Final = "error_message"
# Fields of responses that have another name in requests.
_SAME: Final = (
    {"partition", "partition_index", "partition_id", "index"},
    {"name", "topic", "topic_name", "user"},
)


def error_response(
    request: Message, version: int, code: ErrorCode, message: str | None = None, *, per_part: bool = False
) -> Message:
    """The response with an error code for the whole request or, with `per_part`, for each resource that it names."""
    response = response_type(request.API_KEY)()
    has_code = _has(response, "error_code", version)
    if per_part or not has_code:
        _add_parts(response, _flattened(request), version, code, message)
    if has_code and not (per_part and _has_parts(response, version)):
        _set_code(response, version, code, message)
    return response


def _flattened(request: Any) -> Any:
    """AlterReplicaLogDirs names topics by log directory; its response names topics alone."""
    if request.API_KEY != _ALTER_REPLICA_LOG_DIRS or not request.dirs:
        return request
    return type(request.dirs[0])(topics=[topic for directory in request.dirs for topic in directory.topics])


def _has(struct: Struct, field: str, version: int) -> bool:
    return field in struct.FIELDS and struct.FIELDS[field].is_in(version)


def _has_parts(response: Struct, version: int) -> bool:
    return any(getattr(response, name) for name in _arrays(response, version))


def _arrays(struct: Struct, version: int) -> list[str]:
    return [name for name, field in struct.FIELDS.items() if field.is_array and field.is_in(version)]


def _set_code(struct: Any, version: int, code: ErrorCode, message: str | None) -> bool:
    fields = [name for name in _CODES if _has(struct, name, version)]
    for name in fields:
        setattr(struct, name, code)
    if message is not None and _has(struct, _MESSAGE, version):
        setattr(struct, _MESSAGE, message)
    return bool(fields)


def _add_parts(response: Any, request: Any, version: int, code: ErrorCode, message: str | None) -> None:
    """For each array of the response that can hold the error: an element for each of the request's."""
    for name in _arrays(response, version):
        shape: Any = response.FIELDS[name].type
        source = _source(request, name, version)
        if source is None or isinstance(shape, FieldKind) or not _holds_code(shape(), version):
            continue
        parts = []
        for asked in getattr(request, source) or ():
            part = shape()
            if not _copy_names(part, asked, version):
                return
            if not _set_code(part, version, code, message):
                _add_parts(part, asked, version, code, message)
            parts.append(part)
        setattr(response, name, parts)
        return


def _holds_code(struct: Struct, version: int) -> bool:
    if any(_has(struct, name, version) for name in _CODES):
        return True
    shapes: list[Any] = [struct.FIELDS[name].type for name in _arrays(struct, version)]
    return any(not isinstance(shape, FieldKind) and _holds_code(shape(), version) for shape in shapes)


def _source(request: Any, name: str, version: int) -> str | None:
    """The array of the request that an array of the response answers: of the same name, or else the first."""
    if not isinstance(request, Struct):
        return None
    arrays = _arrays(request, version)
    return name if name in arrays else next(iter(arrays), None)


def _copy_names(part: Any, asked: Any, version: int) -> bool:
    """Copy the fields that identify an element; False if there are none, or none are needed."""
    if not isinstance(asked, Struct):
        kind = string if isinstance(asked, str) else None
        for name, field in part.FIELDS.items():
            is_key = (
                not field.is_array and name not in (*_CODES, _MESSAGE) and isinstance(field.type, FieldKind)
            )
            if is_key and (kind is None) == (field.type is not string):
                setattr(part, name, asked)
                return True
        return False
    names = [name for name, field in part.FIELDS.items() if not field.is_array and field.is_in(version)]
    has_copied = False
    for name in names:
        if name in _CODES or name == _MESSAGE:
            continue
        same = next((group for group in _SAME if name in group), {name})
        for other in asked.FIELDS:
            if other in same and not asked.FIELDS[other].is_array:
                setattr(part, name, getattr(asked, other))
                has_copied = True
    return has_copied or names == [each for each in names if each in (*_CODES, _MESSAGE)]
