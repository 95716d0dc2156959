"""The caches by key: the claims and Nodes of each agent pool name, and how current the caches are.

A claim's key is the name of its pool, a Node's key is the pool that its label names.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from controllers.model.conditions import launched, was_usable
from controllers.model.crd_deletion import CRD_NAMES, Crds
from controllers.model.devices import gpus_of, pools_of
from controllers.model.ownership import managed
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, is_own
from provisioner.api.owner import counted_in, nodepool_of
from provisioner.api.resourceslice import ResourceSlice
from provisioner.runtime.named import Named
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.vendors import BY_DRIVER

from .memory import NodeWrite

POOL = "pool"
UID = "uid"
# The UID of the NodePool that owns a claim.
NODEPOOL = "nodepool"
# The NodePool that counts a claim, its node class, and its Node, by name.
COUNTED_IN, NODE_CLASS, NODE_NAME = "counted in", "node class", "node name"
# Which state the machine of a managed claim was in: `MachineState`, with `DELETING` before it if the claim is deleting.
STATE, DELETING = "state", "deleting "
MachineState = Literal["usable", "launched"]
# The resource group of a Node's machine.
RESOURCE_GROUP = "resource group"
# The index of a cache of ResourceSlices by the name of their Node.
NODE = "node"

# The newest resource versions of a key's objects, by kind: a refusal is valid for them only.
Versions = Mapping[str, str]

PoolName = Callable[[NodeClaim], str]
# As in `Cloud`.
PoolOf = Callable[[Node], str]
ResourceGroupOf = Callable[[Node], str]


def claim_indexes(pool_name: PoolName) -> Mapping[str, Callable[[NodeClaim], tuple[str, ...]]]:
    """The indexes that a cache of claims must have to be viewed here."""
    return {
        POOL: lambda claim: (pool_name(claim),),
        UID: lambda claim: (claim.uid,),
        NODEPOOL: lambda claim: (owner.uid,) if (owner := nodepool_of(claim)) is not None else (),
        COUNTED_IN: lambda claim: (pool,) if (pool := counted_in(claim)) else (),
        NODE_CLASS: lambda claim: (claim.spec.node_class_ref.name,) if is_own(claim.spec.node_class_ref) else (),
        NODE_NAME: lambda claim: (claim.status.node_name,) if claim.status.node_name else (),
        STATE: _states,
    }


def _states(claim: NodeClaim) -> tuple[str, ...]:
    usable = was_usable(claim)
    if not (usable or launched(claim)) or not managed(claim):
        return ()
    reached: tuple[MachineState, ...] = ("usable", "launched") if usable else ("launched",)
    return (*reached, *(f"{DELETING}{one}" for one in reached)) if claim.deleting else reached


def node_indexes(
    pool_of: PoolOf, resource_group_of: ResourceGroupOf
) -> Mapping[str, Callable[[Node], tuple[str, ...]]]:
    """The indexes that a cache of Nodes must have to be viewed here."""
    return {
        POOL: lambda node: (pool,) if (pool := pool_of(node)) else (),
        RESOURCE_GROUP: lambda node: (group,) if (group := resource_group_of(node)) else (),
    }


def slice_indexes() -> Mapping[str, Callable[[ResourceSlice], tuple[str, ...]]]:
    """The index that a cache of ResourceSlices must have to be viewed here."""
    return {NODE: lambda one: (one.spec.node_name,) if one.spec.node_name else ()}


class Indexes:
    """Reads the caches; writes nothing. `node_classes` None: claims of AgentPoolNodeClasses wait.

    `slices` None: claims that need ResourceSlices wait.
    """

    def __init__(
        self,
        *,
        claims: Reflector[NodeClaim],
        nodes: Reflector[Node],
        crds: Named[CustomResourceDefinition],
        pool_name: PoolName,
        pool_of: PoolOf,
        node_classes: Reflector[AgentPoolNodeClass] | None = None,
        slices: Reflector[ResourceSlice] | None = None,
    ) -> None:
        self._node_classes = node_classes
        self._slices = slices
        self._claims = claims
        self._nodes = nodes
        self._crds = crds
        self.key_of = pool_name
        self.pool_of = pool_of

    @property
    def synced(self) -> bool:
        """Whether claims and Nodes have each been listed whole."""
        return self._claims.synced and self._nodes.synced

    @property
    def current(self) -> bool:
        """Whether all three watches work; a cache whose list fails is stale."""
        caches = (self._claims, self._nodes, self._crds)
        return all(cache.synced and cache.last_error is None for cache in caches)

    @property
    def crds(self) -> Crds:
        """The CRDs with whose deletion claims are deleted; empty before they were listed."""
        return {name: self._crds.get(name) for name in CRD_NAMES} if self._crds.synced else {}

    def node_class_of(self, claim: NodeClaim) -> tuple[AgentPoolNodeClass | None, bool]:
        """The AgentPoolNodeClass that the claim refers to, and whether its existence is known."""
        if self._node_classes is None or not is_own(claim.spec.node_class_ref):
            return None, False
        return self._node_classes.get(claim.spec.node_class_ref.name), self._node_classes.synced

    def claims_of_class(self, name: str) -> tuple[NodeClaim, ...]:
        """The claims that refer to this AgentPoolNodeClass."""
        return self._claims.by_index(NODE_CLASS, name)

    def slices_of(self, key: str) -> tuple[tuple[ResourceSlice, ...] | None, str]:
        """The ResourceSlices of the Nodes of this key; None, and the error of the list, if they are not known.

        If the permission is revoked, those in the cache are of an earlier time, and those of new Nodes are missing.
        """
        error = self._slices.last_error if self._slices is not None else None
        revoked = error is not None and error.status in (401, 403)
        if self._slices is None or not self._slices.synced or revoked:
            return None, str(error) if error is not None else ""
        return tuple(one for node in self.nodes_of(key) for one in self._slices.by_index(NODE, node.name)), ""

    def published_gpus(self, name: str) -> int | None:
        """How many GPUs DRA drivers have published on the Node of this name; None if none has."""
        slices = self._slices.by_index(NODE, name) if self._slices is not None else ()
        pools = [pool for driver in BY_DRIVER for pool in pools_of(slices, driver)]
        return gpus_of(pools) if pools else None

    def key_of_node(self, name: str) -> str:
        """The key of the Node of this name; "" if there is none."""
        node = self._nodes.get(name)
        return (self.pool_of(node) if node is not None else None) or ""

    def resource_groups(self) -> tuple[str, ...]:
        """The resource groups of the machines of all Nodes, as ARM ids in lower case."""
        return self._nodes.index_values(RESOURCE_GROUP)

    def keys(self) -> dict[str, None]:
        """All keys that claims or Nodes map to."""
        claims = dict.fromkeys(self.key_of(claim) for claim in self._claims.items())
        return claims | dict.fromkeys(key for node in self._nodes.items() if (key := self.pool_of(node)))

    def claim_of_uid(self, uid: str) -> NodeClaim | None:
        """The claim that has this UID, whatever its name."""
        return next(iter(self._claims.by_index(UID, uid)), None)

    def claims(self) -> tuple[NodeClaim, ...]:
        """All claims, managed or not."""
        return tuple(self._claims.items())

    def number_of(self, state: MachineState) -> int:
        """How many managed claims have a machine that was in this state; one that was usable was launched."""
        return self._claims.count(STATE, state)

    def deleting(self, state: MachineState) -> tuple[NodeClaim, ...]:
        """Those of them that are being deleted."""
        return self._claims.by_index(STATE, f"{DELETING}{state}")

    def claims_of(self, key: str) -> tuple[NodeClaim, ...]:
        return self._claims.by_index(POOL, key)

    def log_fields(self, key: str) -> Mapping[str, object]:
        """Which claim a pass is about, in the keys of Karpenter's log lines; {} if there is none of that key."""
        name = next((claim.name for claim in self.claims_of(key)), "")
        kind = {"controllerGroup": "karpenter.sh", "controllerKind": "NodeClaim"}
        return {**kind, "NodeClaim": {"name": name}, "namespace": "", "name": name} if name else {}

    def nodes_of(self, key: str) -> tuple[Node, ...]:
        return tuple(sorted(self._nodes.by_index(POOL, key), key=lambda node: node.name))

    def versions(self, key: str) -> Versions:
        """One text for all claims of this key and one for all its Nodes; it differs as soon as one of them does."""
        return {
            "claim": " ".join(c.metadata.resource_version for c in self.claims_of(key)),
            "node": " ".join(n.metadata.resource_version for n in self.nodes_of(key)),
        }

    def knows_nodes(self, nodes: tuple[Node, ...]) -> bool:
        """Whether the cache holds each of these Nodes."""
        cached = (self._nodes.get(node.name) for node in nodes)
        return all(seen is not None and seen.uid == node.uid for seen, node in zip(cached, nodes, strict=True))

    def delivered(self, write: NodeWrite) -> bool:
        """Whether the cache of Nodes has every change that is older than this write."""
        return self._nodes.delivered(write.name, write.uid, write.resource_version)
