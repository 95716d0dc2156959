"""Decoding of the API server's JSON into typed objects and lists. No I/O.

Every field of our types has a default, so `{}` or the JSON of a proxy would decode into an empty object or an empty
list. Therefore kind, name and resourceVersion are checked first. A field that does not fit its type (a CRD accepts more
times than `datetime`) is left out of its object and named in `ObjectMeta.unreadable`: a list without that object would
mean that the object does not exist, and a list that fails would stop everything for one object. The API server enforces
the types of metadata in all kinds: an object whose metadata does not fit is an error. Of an object that is too large to
be read only the metadata is known, and `unreadable` says so. Values that are nested more deeply than any field of our
types do not count: what is beside them is decoded (`nested_json`).

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
(lists); the items of a list of a built-in kind have no kind.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from .kube_errors import UNREADABLE, unexpected
from .nested_json import decode
from .objects import Head, KubeObject
from .resources import Resource

T = TypeVar("T", bound=KubeObject)
Kept = TypeVar("Kept")

# Beyond this many, the whole of `spec` or `status` is left out.
UNREADABLE_FIELDS_MAX = 10
TOO_LARGE = ("spec: the object is too large to be read; make it smaller", "status: it is not read either")
_PLACE = re.compile(r"(.*) - at `\$\.([^`]*)`", re.DOTALL)
_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[Kept]):
    """What is kept of each object of a collection at `resource_version`."""

    items: tuple[Kept, ...]
    resource_version: str


class _Partial(msgspec.Struct):
    """An item of a list of metadata."""

    metadata: Any


class _Page(Head, frozen=True):
    """A body without `items` is an error and not an empty list."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


def decoded(body: bytes | msgspec.Raw, resource: Resource[T], what: str, head: Head | None = None) -> T:
    """One object of this resource. Raises KubeError for any other body, naming a field that does not fit.

    `head`: what the caller has decoded of the body.
    """
    try:
        head = head or decode(body, Head)
        if head.kind != resource.kind or head.metadata is None or not head.metadata.name:
            raise unexpected(200, f"{what}: expected a {resource.kind}", body=bytes(body))
        return _readable(body, resource)
    except msgspec.ValidationError as error:
        raise unexpected(200, f"{what}: {_name(body)}: {error}") from None
    except UNREADABLE:
        raise unexpected(200, f"{what}: not JSON", body=bytes(body)) from None


def page(body: bytes, resource: Resource[T], what: str) -> tuple[Iterable[T], str, str]:
    """The objects of one page, the list's resourceVersion and the continue token ("" on the last page).

    Each object is decoded when the caller takes it: decoded, a page can have twenty times as many bytes. Raises
    KubeError, also from the iteration.
    """
    raw, version, token = _raw_page(body, f"{resource.kind}List", what)
    return (_item(one, resource, what) for one in raw), version, token


def metadata_page(body: bytes, resource: Resource[T], what: str) -> tuple[Iterable[T], str, str]:
    """As `page`, of a response that has the metadata of the objects only. Raises KubeError."""
    raw, version, token = _raw_page(body, "PartialObjectMetadataList", what)
    try:
        found = [decode(one, _Partial).metadata for one in raw]
    except UNREADABLE as error:
        raise unexpected(200, f"{what}: {error}") from None
    return [metadata_only(one, resource, what) for one in found], version, token


def metadata_only(metadata: Any, resource: Resource[T], what: str) -> T:
    """The object with nothing but this metadata. Raises KubeError."""
    try:
        return msgspec.convert({"metadata": {**metadata, "unreadable": TOO_LARGE}}, resource.type)
    except (msgspec.ValidationError, TypeError) as error:
        raise unexpected(200, f"{what}: metadata of an object: {error}") from None


def _raw_page(body: bytes, kind: str, what: str) -> tuple[list[msgspec.Raw], str, str]:
    try:
        found = decode(body, _Page)
    except UNREADABLE:
        raise unexpected(200, f"{what}: not a list", body=body) from None
    if found.kind != kind or found.metadata is None or not found.metadata.resource_version:
        raise unexpected(200, f"{what}: expected a {kind}", body=body)
    if found.items is msgspec.UNSET:
        raise unexpected(200, f"{what}: not a list", body=body)
    return found.items or [], found.metadata.resource_version, found.metadata.continue_


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
        return decode(body, resource.type)
    except msgspec.ValidationError as error:
        value, failed = decode(body, dict[str, Any]), error
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
        head = decode(body, Head)
    except UNREADABLE:
        return "an object"
    return head.metadata.name if head.metadata is not None else "an object"
