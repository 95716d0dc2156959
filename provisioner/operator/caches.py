"""The caches of one process: reflectors for NodeClaims, Nodes, CRDs, NodePools and their node classes.

Every replica fills them, so that a new leader starts with current caches. The caches of NodePools and
AgentPoolNodeClasses list and watch only while their CRDs exist, and never if NodePools are disabled.
"""

from dataclasses import dataclass

from cloudprovider.azure.agentpool import pool_name
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODECLASSES, NODEPOOLS, NODES
from provisioner.runtime.served import WhileServed

from .config import Clients


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """`indexes` reads the first three reflectors, each of which is filled by its `run`.

    `node_pools` has the NodePools of every controller, `node_classes` all AgentPoolNodeClasses. Both are filled by
    `optional`, and are empty and not synced as long as their CRD does not exist or NodePools are disabled. Read them
    only if they are synced: otherwise the objects are unknown.
    """

    claims: Reflector[NodeClaim]
    nodes: Reflector[Node]
    crds: Reflector[CustomResourceDefinition]
    indexes: Indexes
    node_pools: Reflector[NodePool]
    node_classes: Reflector[AgentPoolNodeClass]
    optional: tuple[WhileServed, ...]


def build_caches(clients: Clients, *, node_pools: bool = False) -> Caches:
    """Caches without event handlers. `node_pools`: whether NodePools are enabled."""
    kube, rng, metrics = clients.kube, clients.rng, clients.metrics
    claims: Reflector[NodeClaim] = Reflector(
        kube, NODECLAIMS, rng=rng, indexes=claim_indexes(pool_name), metrics=metrics.reflector("nodeclaims")
    )
    nodes: Reflector[Node] = Reflector(kube, NODES, rng=rng, indexes=node_indexes(), metrics=metrics.reflector("nodes"))
    crds: Reflector[CustomResourceDefinition] = Reflector(
        kube, CRDS, rng=rng, indexes={}, metrics=metrics.reflector("customresourcedefinitions")
    )
    pools: Reflector[NodePool] = Reflector(
        kube, NODEPOOLS, rng=rng, indexes={}, metrics=metrics.reflector("nodepools") if node_pools else None
    )
    classes: Reflector[AgentPoolNodeClass] = Reflector(
        kube,
        NODECLASSES,
        rng=rng,
        indexes={},
        metrics=metrics.reflector("agentpoolnodeclasses") if node_pools else None,
    )
    indexes = Indexes(claims=claims, nodes=nodes, crds=crds, pool_name=pool_name, node_classes=classes)
    optional = (WhileServed(classes, NODECLASSES, crds), WhileServed(pools, NODEPOOLS, crds)) if node_pools else ()
    return Caches(
        claims=claims,
        nodes=nodes,
        crds=crds,
        indexes=indexes,
        node_pools=pools,
        node_classes=classes,
        optional=optional,
    )
