"""Object metadata and other types that all Kubernetes objects share.

Undeclared fields are dropped when decoding, so an object that was read must not be PUT back
(docs/references/rules.md#field-ownership). Names on the wire are camelCase, here snake_case.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/; times are RFC 3339 in UTC
with whole seconds.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Protocol, TypeVar

import msgspec

EMPTY: Mapping[str, str] = MappingProxyType({})
ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all wire types: frozen, keyword-only, camelCase on the wire, defaults left out."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def is_daemon_set(self) -> bool:
        """Whether the owner is a DaemonSet of Kubernetes, and no other kind of that name."""
        return self.kind == "DaemonSet" and self.api_version.startswith("apps/")

    @property
    def is_node(self) -> bool:
        """Whether the owner is a Node, as of a mirror pod."""
        return self.kind == "Node" and self.api_version == "v1"


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """`unreadable` is no field of the API: the fields that the decoder left out of the object, each with the cause."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time = ZERO_TIME
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def deleting(self) -> bool:
        """Whether the object has a deletionTimestamp."""
        return self.deletion_timestamp is not None

    @property
    def daemon_set(self) -> OwnerReference | None:
        """The DaemonSet that owns this pod; None for any other pod."""
        return next((one for one in self.owner_references if one.is_daemon_set), None)

    @property
    def mirrored_by(self) -> OwnerReference | None:
        """The Node of a static pod: a file on it defines the pod, and the API server has a mirror; None for others."""
        return next((one for one in self.owner_references if one.is_node), None)

    def identity(self, *unreadable: str) -> "ObjectMeta":
        """Without labels, annotations, owners and finalizers. `unreadable`: what else was left out of the object."""
        bare = msgspec.structs.replace(self, labels=EMPTY, annotations=EMPTY, finalizers=(), owner_references=())
        return msgspec.structs.replace(bare, unreadable=(*self.unreadable, *unreadable)) if unreadable else bare


class TemplateMetadata(Struct, frozen=True, kw_only=True):
    """What objects that are made from a template get. Before Kubernetes 1.34 its creationTimestamp is null."""

    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One status condition. `last_transition_time` moves only when `status` changes."""

    type: str
    status: str
    last_transition_time: Time
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class _Condition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=_Condition)


def condition_of(conditions: Iterable[C], kind: str, *statuses: str) -> C | None:
    """The condition of this type, if it has one of these statuses (any if none is given)."""
    for one in conditions:
        if one.type == kind:
            return one if not statuses or one.status in statuses else None
    return None


class Taint(Struct, frozen=True, kw_only=True):
    """A taint of a Node. Has every field of the API, because lists of taints are replaced whole.

    `time_added` is only written back: it is the text as it was read.
    """

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None

    def __str__(self) -> str:
        """`key[=value]:effect`, as Karpenter prints it (docs/references/karpenter.md#conditions)."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    def matches(self, other: "Taint") -> bool:
        """Whether both taints have the same key and effect, as `MatchTaint` of Kubernetes compares them."""
        return self.key == other.key and self.effect == other.effect
