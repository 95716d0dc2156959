"""Event handlers: the only place where events of caches, inventory and Lease add keys to the work queue."""

from collections.abc import Callable, Iterable

from cloudprovider.inventory import Inventory
from controllers.model.conditions import was_usable
from controllers.model.confirmation import Confirmation
from controllers.model.crd_deletion import CRD_NAMES
from controllers.model.ownership import marked
from controllers.model.readiness import recorded_taints
from controllers.nodeclaim.lifecycle.launch import is_queued
from controllers.state.cluster import ClusterState
from controllers.state.indexes import Indexes
from controllers.state.readiness_rules import node_of
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.owner import nodepool_of
from provisioner.api.resourceslice import ResourceSlice
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.watched_objects import Watched, WatchedObject
from provisioner.runtime.workqueue import WorkQueue

from .launch_gate import LaunchGate


class EventHandlers:
    """`known_keys` are those that were reconciled before; `continues`: whether an own write leads to the next step.

    `launches` delays the first reconcile of a NodePool's claim while further ones are created.

    A key that continues goes to the front of the queue, so that machines become ready one by one, not all late.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue,
        indexes: Indexes,
        inventory: Inventory,
        cluster_state: ClusterState,
        known_keys: Callable[[], Iterable[str]],
        continues: Callable[[str], bool],
        launches: LaunchGate,
    ) -> None:
        self._queue = queue
        self._indexes = indexes
        self._inventory = inventory
        self._cluster_state = cluster_state
        self._known_keys = known_keys
        self._continues = continues
        self._launches = launches

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A claim appeared, changed or went. If it leaves the queue for room, the next claims are reconciled."""
        self._cluster_state.claim_changed(old, new)
        if old is None and new is not None and nodepool_of(new) is not None:
            self._cluster_state.key_changed(self._indexes.key_of(new))
            self._launches.new_claim(self._indexes.key_of(new))
            return
        for claim in (old, new):
            if claim is not None:
                self._add(self._indexes.key_of(claim))
        unqueued = old is not None and is_queued(old) and (new is None or new.deleting or not is_queued(new))
        if old is not None and unqueued and self._inventory.get(self._indexes.key_of(old)) is None:
            self._add_queued()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node appeared, changed or went. Kubelets write the status of each Node, those of other owners included."""
        for node in (old, new):
            if node is not None and (key := self._indexes.pool_of(node)) and self._concerns(key, node):
                self._add(key)

    def _concerns(self, key: str, node: Node) -> bool:
        """Whether a pass over this key could do more than forget it: it reads all Nodes of the agent pool."""
        instance = self._inventory.get(key)
        return marked(node) or bool(self._indexes.claims_of(key)) or (instance is not None and not instance.foreign)

    def node_delivered(self, node: Node) -> None:
        """The watch has delivered an own write to a Node, and every change before it: its key may wait for that."""
        if key := self._indexes.pool_of(node):
            self._add(key)

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """A DRA driver published other devices of a Node."""
        for name in {one.spec.node_name for one in (old, new) if one is not None}:
            if key := self._indexes.key_of_node(name):
                self._add(key)

    def pool_changed(self, key: str) -> None:
        """An agent pool appeared, changed or went. If it went, the first queued claims are reconciled."""
        self._cluster_state.pool_changed(key)
        self._add(key)
        if self._inventory.get(key) is None:
            self._add_queued()

    def crd_changed(self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None) -> None:
        """A CRD appeared, changed or went. The deletion of some deletes claims."""
        if not {crd.metadata.name for crd in (old, new) if crd is not None}.isdisjoint(CRD_NAMES):
            self.all_changed()

    def node_class_changed(self, old: AgentPoolNodeClass | None, new: AgentPoolNodeClass | None) -> None:
        """A node class appeared, changed or went: its claims may have waited for it."""
        for name in {one.name for one in (old, new) if one is not None}:
            for claim in self._indexes.claims_of_class(name):
                self._add(self._indexes.key_of(claim))

    def readiness_object_changed(self, watched: Watched, old: WatchedObject | None, new: WatchedObject | None) -> None:
        """A pod or object changed that a readiness rule names: that of one Node, or one that all Nodes wait for."""
        pods = watched.resource == "pods" and not watched.group
        for name in {node_of(one) if pods else one.metadata.name for one in (old, new) if one is not None}:
            if key := self._indexes.key_of_node(name):
                self._add(key)
            elif not pods:
                self.readiness_changed(watched)

    def readiness_changed(self, _: Watched) -> None:
        """What is known about a resource changed: reconcile the claims that readiness rules hold back."""
        for claim in self._indexes.claims():
            if recorded_taints(claim) and not was_usable(claim):
                self._add(self._indexes.key_of(claim))

    def _add(self, key: str) -> None:
        self._cluster_state.key_changed(key)
        self._queue.add(key, first=self._continues(key))

    def _add_queued(self) -> None:
        for key in self._cluster_state.queue_heads():
            self._queue.add(key)

    def cache_synced(self) -> None:
        """Claims or Nodes were listed for the first time: reconcile the keys that waited for it."""
        self._cluster_state.all_changed()
        for key in self._known_keys():
            self._queue.add(key)

    def all_changed(self) -> None:
        """Every key is affected: the first list of pools, the state of the managed cluster, the CRD."""
        self._cluster_state.all_changed()
        for key in (*self._indexes.keys(), *self._inventory.names()):
            self._queue.add(key)

    def confirmed(self, confirmation: Confirmation | None) -> None:
        """An operator confirmed removals that the circuit breaker blocks, or withdrew the confirmation."""
        self._cluster_state.confirmation = confirmation
        for key in self._cluster_state.candidates():
            self._queue.add(key)
