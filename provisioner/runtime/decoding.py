"""The API server's JSON, as objects of one kind or as whole lists of them. No I/O.

An answer is only taken for what it says it is. Our types have a default for every field, so that `{}` or a
proxy's JSON would pass for an object, and an empty list for "there are none". Kind, name and version come first.
A value that does not fit its type fails the whole answer, by name: leaving that object out would claim its absence.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
(lists); items of built-in kinds carry no kind of their own.
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
    """All objects of a collection as they were at `resource_version`."""

    items: tuple[T, ...]
    resource_version: str


class _Page(msgspec.Struct):
    """`items` has no default: a body without it is no list, and an empty list is a statement."""

    items: list[msgspec.Raw] | None


def decoded(body: bytes | msgspec.Raw, resource: Resource[T], what: str) -> T:
    """The object, if it is one of this resource; our types have defaults for everything, so its head is looked at.

    Raises KubeError, naming the field that does not fit.
    """
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
    """One page of a list: its objects, the list's resourceVersion, and the token of the next page ("" if last).

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
