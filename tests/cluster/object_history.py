"""What became of pools, Nodes and claims of a real cluster and an emulated cloud, in one order.

Everything is dated by etcd's revision: objects bear it, and when a pool goes the cluster is asked for its own
at that very moment. So "the pool was gone before the Node" is a fact and not a race between two watches.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from provisioner.api import labels
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.snapshot import labels_of, pool_mark

from .realstore import RealStore, version_of

Json = dict[str, Any]
KINDS = {"nodes": "node", "nodeclaims.karpenter.sh": "claim"}


class Gone(NamedTuple):
    """An object that went; `uid` is that of the claim it belonged to."""

    revision: int
    kind: str
    name: str
    uid: str


class Chronicle:
    """`deletion_order` as the simulated world's ledger has it; `on_change` is called after each change it hears of."""

    def __init__(self, store: RealStore, cloud: AzureCloud, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._gone: list[Gone] = []
        store.subscribe(self._object_changed)
        cloud.subscribe(self._pool_changed)

    def deletion_order(self, uid: str) -> list[str]:
        """In which order the pools, Nodes and the claim of a claim's UID went."""
        return [gone.kind for gone in sorted(self._gone) if gone.uid == uid]

    def tail(self) -> str:
        """All disappearances, one a line."""
        return "\n".join(f"revision {gone.revision}: {gone.kind} {gone.name} gone" for gone in sorted(self._gone))

    def _object_changed(self, change: str, resource: str, obj: Json, _: Json | None) -> None:
        kind = KINDS.get(resource)
        if kind is not None and change == "DELETED":
            name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
            owner = uid if kind == "claim" else labels_of(obj).get(labels.CLAIM_UID, "")
            self._gone.append(Gone(version_of(obj), kind, name, owner))
        self._on_change()

    def _pool_changed(self, event: str, pool: Pool) -> None:
        if event == "gone":
            self._gone.append(Gone(self._store.revision(), "pool", pool.name, pool_mark(pool)))
        self._on_change()
