"""Decoding of the API server's JSON into typed objects and lists. No I/O.

Every field of our types has a default, so `{}` or the JSON of a proxy would decode into an empty object or an empty
list. Therefore kind, name and resourceVersion are checked first. A field that does not fit its type (a CRD accepts more
times than `datetime`) is left out of its object and named in `ObjectMeta.unreadable`: a list without that object would
mean that the object does not exist, and a list that fails would stop everything for one object. The API server enforces
the types of metadata in all kinds: an object whose metadata does not fit is an error.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
(lists); the items of a list of a built-in kind have no kind.
"""

import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from .kube_errors import UNREADABLE, unexpected
from .objects import Head, KubeObject
from .resources import Resource

T = TypeVar("T", bound=KubeObject)

# Beyond this many, the whole of `spec` or `status` is left out.
UNREADABLE_FIELDS_MAX = 10
_PLACE = re.compile(r"(.*) - at `\$\.([^`]*)`", re.DOTALL)
_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """All objects of a collection at `resource_version`."""

    items: tuple[T, ...]
    resource_version: str


class _Page(msgspec.Struct):
    """`items` has no default, so that a body without it is an error and not an empty list."""

    items: list[msgspec.Raw] | None


def decoded(body: bytes | msgspec.Raw, resource: Resource[T], what: str) -> T:
    """One object of this resource. Raises KubeError for any other body, naming a field that does not fit."""
    try:
        head = msgspec.json.decode(body, type=Head)
        if head.kind != resource.kind or head.metadata is None or not head.metadata.name:
            raise unexpected(200, f"{what}: expected a {resource.kind}", body=bytes(body))
        return _readable(body, resource)
    except msgspec.ValidationError as error:
        raise unexpected(200, f"{what}: {_name(body)}: {error}") from None
    except UNREADABLE:
        raise unexpected(200, f"{what}: not JSON", body=bytes(body)) from None


def page(body: bytes, resource: Resource[T], what: str) -> tuple[list[T], str, str]:
    """The objects of one page, the list's resourceVersion and the continue token ("" on the last page).

    Raises KubeError.
    """
    try:
        head = msgspec.json.decode(body, type=Head)
        if head.kind != f"{resource.kind}List" or head.metadata is None or not head.metadata.resource_version:
            raise unexpected(200, f"{what}: expected a {resource.kind}List", body=body)
        found = msgspec.json.decode(body, type=_Page)
    except UNREADABLE:
        raise unexpected(200, f"{what}: not a list", body=body) from None
    items = [_item(raw, resource, what) for raw in found.items or ()]
    return items, head.metadata.resource_version, head.metadata.continue_


def _item(raw: msgspec.Raw, resource: Resource[T], what: str) -> T:
    try:
        item = _readable(raw, resource)
    except UNREADABLE as error:
        raise unexpected(200, f"{what}: {_name(raw)}: {error}") from None
    if not item.metadata.name:
        raise unexpected(200, f"{what}: an item without a name", body=bytes(raw))
    return item


def _readable(body: bytes | msgspec.Raw, resource: Resource[T]) -> T:
    """The object, without the fields that do not fit. Raises what `msgspec` raises if the rest does not decode."""
    try:
        return msgspec.json.decode(body, type=resource.type)
    except msgspec.ValidationError as error:
        value, failed = msgspec.json.decode(body), error
    for count in range(1, UNREADABLE_FIELDS_MAX + 3):
        member, field, why = _unreadable_field(failed)
        _leave_out(value, [member] if count > UNREADABLE_FIELDS_MAX else field)
        noted = value["metadata"].setdefault("unreadable", [])
        noted.append(f"{_dotted([member] if count > UNREADABLE_FIELDS_MAX else field)}: {why}")
        try:
            return msgspec.convert(value, resource.type)
        except msgspec.ValidationError as error:
            failed = error
    raise failed


def _unreadable_field(error: msgspec.ValidationError) -> tuple[str, list[str | int], str]:
    """The member of the object, the path of the field in it, and why it does not fit. Raises the error for metadata."""
    found = _PLACE.fullmatch(str(error))
    # The keys of a map are not named: the map is left out.
    path: list[str | int] = (
        [int(index) if index else name for name, index in _PART.findall(found[2].partition("[...]")[0])]
        if found
        else []
    )
    if found is None or not path or path[0] == "metadata":
        raise error
    return str(path[0]), path, found[1]


def _leave_out(value: Any, path: list[str | int]) -> None:
    for part in path[:-1]:
        value = value[part]
    del value[path[-1]]


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _name(body: bytes | msgspec.Raw) -> str:
    try:
        head = msgspec.json.decode(body, type=Head)
    except UNREADABLE:
        return "an object"
    return head.metadata.name if head.metadata is not None else "an object"
