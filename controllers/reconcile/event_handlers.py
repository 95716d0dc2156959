"""Which event wakes which key: here and nowhere else.

Whatever a plan may be waiting for adds its key to the queue; a key is added, never run.
"""

from collections.abc import Callable, Iterable

from cloudprovider.inventory import Inventory
from controllers.model.confirmation import Confirmation
from controllers.model.ownership import pool_of
from controllers.nodeclaim.lifecycle.launch import is_queued
from controllers.state.cluster import ClusterState
from controllers.state.indexes import NODECLAIM_CRD, Indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.workqueue import WorkQueue


class EventHandlers:
    """`known_keys` are those that somebody has looked at before."""

    def __init__(
        self,
        *,
        queue: WorkQueue,
        indexes: Indexes,
        inventory: Inventory,
        cluster_state: ClusterState,
        known_keys: Callable[[], Iterable[str]],
    ) -> None:
        self._queue = queue
        self._indexes = indexes
        self._inventory = inventory
        self._cluster_state = cluster_state
        self._known_keys = known_keys

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A claim appeared, changed or went; one that gave its place in line up makes room for those behind it."""
        self._cluster_state.claim_changed(old, new)
        for claim in (old, new):
            if claim is not None:
                self._wake(self._indexes.key_of(claim))
        left = old is not None and is_queued(old) and (new is None or new.deleting or not is_queued(new))
        if old is not None and left and self._inventory.get(self._indexes.key_of(old)) is None:
            self._wake_line()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node appeared, changed or went."""
        for node in (old, new):
            if node is not None and (key := pool_of(node)):
                self._wake(key)

    def pool_changed(self, key: str) -> None:
        """The inventory learned something new of a pool; one that went makes room for the first in line."""
        self._cluster_state.pools_changed()
        self._wake(key)
        if self._inventory.get(key) is None:
            self._wake_line()

    def crd_changed(self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None) -> None:
        """A CRD appeared, changed or went; ours decides whether a deleting claim was asked to go."""
        if NODECLAIM_CRD in {crd.metadata.name for crd in (old, new) if crd is not None}:
            self.all_changed()

    def _wake(self, key: str) -> None:
        self._cluster_state.key_changed(key)
        self._queue.add(key)

    def _wake_line(self) -> None:
        for waiting in self._cluster_state.queue_heads():
            self._queue.add(waiting)

    def cache_synced(self) -> None:
        """Claims or Nodes have been listed for the first time: whoever waited for that looks again."""
        self._cluster_state.all_changed()
        for key in self._known_keys():
            self._queue.add(key)

    def all_changed(self) -> None:
        """Something changed for every key: the first list of pools, the managed cluster's state, the CRD."""
        self._cluster_state.all_changed()
        for key in (*self._indexes.keys(), *self._inventory.names()):
            self._queue.add(key)

    def confirmed(self, confirmation: Confirmation | None) -> None:
        """A person let removals pass the circuit breaker, or took that back."""
        self._cluster_state.confirmation = confirmation
        for key in self._cluster_state.candidates():
            self._queue.add(key)
