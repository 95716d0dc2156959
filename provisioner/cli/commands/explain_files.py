"""The objects of manifests as the API server would return them, so that files are read like a cluster.

What only a cluster sets is added where a manifest lacks it: a NodePool counts as Ready, a pod without a Node as one
that kube-scheduler could not place, and each object has a UID and was created now.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TextIO, TypeVar

import msgspec

from provisioner.api.time import rfc3339
from provisioner.runtime.decoding import ObjectList
from provisioner.runtime.fence import Fence
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.objects import KubeObject
from provisioner.runtime.resources import Resource

from .manifests import Document, converted, documents
from .refusal import USAGE, Refused
from .schedule_input import REMEDY

T = TypeVar("T", bound=KubeObject)
Kept = TypeVar("Kept")


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] | None = None


class _Shape(msgspec.Struct):
    """The parts of an object to which something is added."""

    metadata: dict[str, Any]
    spec: dict[str, Any] | None = None
    status: _Status | None = None


class Files(Kube):
    """Reads `get` and `list`; nothing else is supported."""

    def __init__(self, names: Sequence[str], typed: TextIO, now: datetime) -> None:
        """Raises Refused for a file that cannot be read."""
        self.fence = Fence(lambda: 0.0)
        self._documents = [_as_served(one, now) for one in documents(names, typed)]

    def fenced(self, fence: Fence) -> "Files":
        return self

    async def get(self, resource: Resource[T], name: str, *, namespace: str = "") -> T:
        for body, found in self._of(resource):
            if (body["metadata"]["name"], body["metadata"].get("namespace", "")) == (name, namespace):
                return found
        raise KubeError(404, "NotFound", f"{resource.kind} {name} is not in the files", named=name)

    async def list(
        self,
        resource: Resource[T],
        *,
        digest: Callable[[T], Kept | None],
        field_selector: str = "",
        label_selector: str = "",
        namespace: str = "",
        limit: int = 500,
    ) -> ObjectList[Kept]:
        kept = (
            digest(one)
            for body, one in self._of(resource)
            if _selected(body, field_selector) and namespace in ("", body["metadata"].get("namespace", ""))
        )
        return ObjectList(tuple(one for one in kept if one is not None), "1")

    def _of(self, resource: Resource[T]) -> Iterator[tuple[Any, T]]:
        for one in self._documents:
            if one.body.get("kind") == resource.kind:
                try:
                    yield one.body, converted(one.body, resource.type)
                except msgspec.ValidationError as error:
                    raise Refused(f"{one.source}: {error}", REMEDY, USAGE) from None


def _as_served(one: Document, now: datetime) -> Document:
    body = one.body
    meta = body.get("metadata") if isinstance(body, dict) else None
    if one.error or not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise Refused(f"{one.source}: {one.error or 'it is no object with a name'}", REMEDY, USAGE)
    own = {"uid": meta["name"], "creationTimestamp": rfc3339(now)}
    if body.get("kind") in ("Pod", "NodePool"):
        try:
            msgspec.convert(body, _Shape)
        except msgspec.ValidationError as error:
            raise Refused(f"{one.source}: {error}", REMEDY, USAGE) from None
    match body.get("kind"):
        case "Pod" if not (body.get("spec") or {}).get("nodeName"):
            added, own = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, own | IN_DEFAULT
        case "Pod" | "DaemonSet" | "PodDisruptionBudget":
            added, own = {}, own | IN_DEFAULT
        case "NodePool":
            added = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(now)}
        case _:
            added = {}
    body = {**body, "metadata": own | {key: value for key, value in meta.items() if value is not None}}
    status = body.get("status") or {}
    known = status.get("conditions") or []
    if added and not any(condition.get("type") == added["type"] for condition in known):
        body["status"] = {**status, "conditions": [*known, added]}
    return Document(one.source, body)


IN_DEFAULT = {"namespace": "default"}


def _selected(body: Any, selector: str) -> bool:
    """Whether the object has these values of fields, as `metadata.name=a` or `status.phase!=Failed`."""
    for term in filter(None, selector.split(",")):
        path, _, value = term.partition("=")
        found: Any = body
        for part in path.removesuffix("!").split("."):
            found = found.get(part, "") if isinstance(found, dict) else ""
        if (found == value) is path.endswith("!"):
            return False
    return True
