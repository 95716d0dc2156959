"""What the machines of each NodePool use together, kept as NodeClaims and Nodes change, and what they cost now."""

from collections.abc import Callable

from controllers.nodepool.cost_limit import Cost, limit
from controllers.nodepool.counter import Usage
from controllers.provisioning.cost import cost_of
from controllers.provisioning.instances import InstanceTypes
from controllers.state.indexes import COUNTED_IN, NODE_NAME
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import counted_in
from provisioner.runtime.reflector import Reflector

NOTHING = Usage()


class NodePoolUsage:
    """Add its event handlers before those of the controllers that read it. `types()`: None while they are unknown."""

    def __init__(
        self, claims: Reflector[NodeClaim], nodes: Reflector[Node], types: Callable[[], InstanceTypes | None]
    ) -> None:
        self._claims = claims
        self._nodes = nodes
        self._types = types
        self._by_pool: dict[str, Usage] = {}

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._claims.add_event_handler(self._claim_changed)
        self._nodes.add_event_handler(self._node_changed)

    def of(self, pool: str) -> Usage:
        """That of the NodePool of this name."""
        return self._by_pool.get(pool, NOTHING)

    def cost(self, pool: NodePool) -> Cost | None:
        """What its machines cost, if that is limited; None also while prices are unknown."""
        types = self._types() if limit(pool) is not None else None
        if types is None:
            return None
        claims = self._claims.by_index(COUNTED_IN, pool.name)
        return cost_of(((claim, self._nodes.get(claim.status.node_name)) for claim in claims), types)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        before, after = (counted_in(one) if one is not None else "" for one in (old, new))
        if old is not None and before and before != after:
            usage = self._by_pool[before]
            usage.forget(old.name)
            if not len(usage):
                del self._by_pool[before]
        if new is not None and after:
            self._by_pool.setdefault(after, Usage()).count(new, self._nodes.get(new.status.node_name))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and old.status.capacity == new.status.capacity:
            return
        for name in {one.name for one in (old, new) if one is not None}:
            for claim in self._claims.by_index(NODE_NAME, name):
                self._claim_changed(claim, claim)
