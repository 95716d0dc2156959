"""The machines of each NodePool that no pod uses, kept as NodeClaims, Nodes and pods change."""

from controllers.disruption.blockers import counts, is_unused
from controllers.provisioning.pods import CachedPod
from controllers.state.indexes import NODE_NAME
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of, why_foreign
from provisioner.api.pod import Pod

from .demand_caches import DemandCaches


class UnusedMachines:
    """Add its event handlers before those of the controllers that read it."""

    def __init__(self, caches: DemandCaches) -> None:
        self._caches = caches
        # The NodeClaims by the UID of the NodePool, and by name.
        self._by_pool: dict[str, dict[str, NodeClaim]] = {}

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._caches.claims.add_event_handler(self._claim_changed)
        self._caches.nodes.add_event_handler(self._node_changed)
        self._caches.pods.add_event_handler(self._pod_changed)

    def of(self, pool: NodePool) -> tuple[NodeClaim, ...]:
        """Those of this NodePool, without a Node and while they are removed too."""
        return tuple(self._by_pool.get(pool.metadata.uid, {}).values())

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if old is not None and (owner := nodepool_of(old)) is not None:
            self._forget(owner.uid, old)
        if new is None or why_foreign(new) or (owner := nodepool_of(new)) is None:
            return
        name = new.status.node_name
        if is_unused(new, self._caches.nodes.get(name), self._caches.pods_on(name)):
            self._by_pool.setdefault(owner.uid, {})[new.name] = new

    def _forget(self, pool: str, claim: NodeClaim) -> None:
        found = self._by_pool.get(pool, {})
        found.pop(claim.name, None)
        if not found:
            self._by_pool.pop(pool, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """What a machine with GPUs is used by is another question than without them."""
        if old is None or new is None or old.status.capacity != new.status.capacity:
            self._look({one.name for one in (old, new) if one is not None})

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or _uses(old) != _uses(new):
            self._look({one.spec.node_name for one in (old, new) if one is not None and one.spec.node_name})

    def _look(self, nodes: set[str]) -> None:
        for name in nodes:
            for claim in self._caches.claims.by_index(NODE_NAME, name):
                self._claim_changed(claim, claim)


def _uses(pod: Pod) -> tuple[object, ...]:
    """Which Node it uses, with and without GPUs."""
    used = (counts(pod, gpus=gpus) for gpus in (False, True)) if isinstance(pod, CachedPod) else ()
    return pod.spec.node_name, *used
