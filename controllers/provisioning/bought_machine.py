"""A machine that was bought for pods, with what its Node and the pods on it show, and a pod that waits for one."""

from typing import NamedTuple

from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .pods import CachedPod
from .purchases import Purchase
from .solver import model


class Machine(NamedTuple):
    """A NodeClaim that was bought for pods. `node` and `machine`: None while there is no Node.

    `node_seconds`: the age of the Node; `initialized_seconds`: how long it has been initialized, None if it is not.
    `healthy`: its Node is Ready, or was when its removal began; `unhealthy_seconds`: how long it has not been.
    `bound`: the UIDs of the pods on it; `took`: the shapes of pods that stayed on it. `contended`: machines were bought
    for some of the pods on it; `placed`: others put some there without a scheduler; `agents`: some are of a DaemonSet
    that Kubernetes does not have. `unused`: it is known that no pod was ever bound to it. `gone`: the UIDs of pods that
    it was bought for and that do not exist any more; `deserted`: those of them that were never bound. `expired`: it is
    deleted because of its age.
    """

    claim: NodeClaim
    purchase: Purchase
    node_pool: str
    node: Node | None
    machine: model.ExistingNode | None
    node_seconds: float
    initialized_seconds: float | None
    healthy: bool
    bound: frozenset[str]
    instance_type: str
    took: frozenset[str] = frozenset()
    contended: bool = False
    placed: bool = False
    agents: bool = False
    unused: bool = False
    gone: frozenset[str] = frozenset()
    deserted: frozenset[str] = frozenset()
    expired: bool = False
    unhealthy_seconds: float = 0.0

    @property
    def is_taken_by_agents(self) -> bool:
        """Whether pods are on it that no scheduler has placed: such pods may come with each Node."""
        return self.agents or self.placed

    def served(self, shape: str) -> bool:
        """Whether a pod of this shape was bound to it."""
        return shape in self.took or not self.bound.isdisjoint(self.purchase.pods.get(shape, ()))

    @property
    def leaves(self) -> bool:
        """Whether this controller, or a person, has begun to remove it."""
        tainted = self.node is not None and any(taint.key == labels.DISRUPTED_TAINT for taint in self.node.spec.taints)
        return self.claim.deleting or tainted

    @property
    def abandoned(self) -> bool:
        """Whether all pods that it was bought for were deleted before they ran."""
        return all(uid in self.deserted for uids in self.purchase.pods.values() for uid in uids)


class Waiting(NamedTuple):
    """A pod that needs a place. `seconds`: for how long this process has seen it wait."""

    pod: CachedPod
    shape: str
    spec: model.PodSpec
    seconds: float
