"""Kubernetes objects that only the runtime uses: Lease, Event, CustomResourceDefinition and Status.

Wire types like those of `provisioner.api`. Times that the API server requires in a fixed format are strings: a
MicroTime has exactly six decimals, which msgspec does not write.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/.
"""

from datetime import UTC, datetime
from typing import Protocol

import msgspec

from provisioner.api.meta import ObjectMeta, Struct, Time

# kube-apiserver's --event-ttl: an Event is gone an hour after its last write.
EVENT_TTL_SECONDS = 3600.0


class KubeObject(Protocol):
    """Any object: its metadata holds name, UID and resourceVersion."""

    @property
    def metadata(self) -> ObjectMeta: ...


class Recordable(KubeObject, Protocol):
    """An object that an Event can refer to."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...


class EventContent(Protocol):
    """What an Event states, and when it is left out because the same was recorded shortly before.

    `repeat_seconds`: after this time the same message about the same object is recorded again. `apart_seconds`: after
    this time another one of the same reason, which has this limit too, is recorded, also one that returns. 0: at once.
    """

    @property
    def type(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def repeat_seconds(self) -> float: ...
    @property
    def apart_seconds(self) -> float: ...


class LeaseSpec(Struct, frozen=True, kw_only=True):
    """`renew_time` and `acquire_time` are strings: whether a Lease expires depends on their change, not their value."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, kw_only=True):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Struct, frozen=True, kw_only=True):
    """The object that an Event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Event(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int = 1
    last_timestamp: Time | None = None
    event_time: Time | None = None


class CustomResourceDefinition(Struct, frozen=True, kw_only=True):
    """Metadata only: the program needs to know whether a CRD exists and whether it is being deleted."""

    api_version: str = "apiextensions.k8s.io/v1"
    kind: str = "CustomResourceDefinition"
    metadata: ObjectMeta = ObjectMeta()


class Status(Struct, frozen=True, kw_only=True):
    """The body of an error response."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: "StatusDetails | None" = None


class StatusDetails(Struct, frozen=True, kw_only=True):
    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0
    causes: "tuple[StatusCause, ...] | None" = None


class StatusCause(Struct, frozen=True, kw_only=True):
    """One cause of an error; for an eviction, the PodDisruptionBudget that blocks it."""

    reason: str = ""
    message: str = ""


def micro_time(moment: datetime) -> str:
    """A MicroTime; the API server requires six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def key_of(item: KubeObject) -> str:
    """`name` or `namespace/name`."""
    metadata = item.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that are checked before a body is decoded as an object or a list."""

    kind: str = ""
    metadata: "HeadMeta | None" = None


class HeadMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
