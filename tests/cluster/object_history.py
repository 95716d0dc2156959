"""The history of pools, Nodes and claims of a real cluster and an emulated cloud, in one order.

Everything is ordered by etcd's revision: objects have it, and when a pool is gone the cluster's revision is read at
that moment. So "the pool was gone before the Node" does not depend on a race of two watches.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from provisioner.api import labels
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.snapshot import labels_of, pool_mark

from .realstore import RealStore, version_of

Json = dict[str, Any]
KINDS = {"nodes": "node", "nodeclaims.karpenter.sh": "claim"}


class Gone(NamedTuple):
    """A deleted object; `uid` is that of its claim. `at`: when this process learned of it, on the wall clock."""

    revision: int
    kind: str
    name: str
    uid: str
    at: datetime


class ObjectHistory:
    """`deletion_order` as in the simulator's audit log; `on_change` is called after each change."""

    def __init__(self, store: RealStore, cloud: AzureCloud, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._gone: list[Gone] = []
        store.subscribe(self._object_changed)
        cloud.subscribe(self._pool_changed)

    def deletion_order(self, uid: str) -> list[str]:
        """The order in which the pools, Nodes and the claim of a claim's UID were deleted."""
        return [gone.kind for gone in sorted(self._gone) if gone.uid == uid]

    def deletions_of(self, name: str) -> list[str]:
        """The order in which the pool and the claim of this name and their Nodes were deleted."""
        return [gone.kind for gone in sorted(self._gone) if gone.name == name or gone.name.startswith(f"aks-{name}-")]

    def tail(self) -> str:
        """All deletions, one in a line."""
        return "\n".join(
            f"revision {gone.revision}, {gone.at:%H:%M:%S.%f}: {gone.kind} {gone.name} gone"
            for gone in sorted(self._gone)
        )

    def _object_changed(self, change: str, resource: str, obj: Json, _: Json | None) -> None:
        kind = KINDS.get(resource)
        if kind is not None and change == "DELETED":
            name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
            owner = uid if kind == "claim" else labels_of(obj).get(labels.CLAIM_UID, "")
            self._gone.append(Gone(version_of(obj), kind, name, owner, datetime.now(UTC)))
        self._on_change()

    def _pool_changed(self, event: str, pool: Pool) -> None:
        if event == "gone":
            now = datetime.now(UTC)
            self._gone.append(Gone(self._store.revision(), "pool", pool.name, pool_mark(pool), now))
        self._on_change()
