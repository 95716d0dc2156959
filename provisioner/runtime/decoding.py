"""Decoding of the API server's JSON into typed objects and lists. No I/O.

Every field of our types has a default, so `{}` or the JSON of a proxy would decode into an empty object or an empty
list. Therefore kind, name and resourceVersion are checked first. One value that does not fit its type fails the whole
response: a list without that object would mean that the object does not exist.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
(lists); the items of a list of a built-in kind have no kind.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from .kube_errors import UNREADABLE, unexpected
from .objects import Head, KubeObject
from .resources import Resource

T = TypeVar("T", bound=KubeObject)


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
        return msgspec.json.decode(body, type=resource.type)
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
        item = msgspec.json.decode(raw, type=resource.type)
    except UNREADABLE as error:
        raise unexpected(200, f"{what}: {_name(raw)}: {error}") from None
    if not item.metadata.name:
        raise unexpected(200, f"{what}: an item without a name", body=bytes(raw))
    return item


def _name(body: bytes | msgspec.Raw) -> str:
    try:
        head = msgspec.json.decode(body, type=Head)
    except UNREADABLE:
        return "an object"
    return head.metadata.name if head.metadata is not None else "an object"
