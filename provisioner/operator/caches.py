"""The caches of one process: reflectors for NodeClaims, Nodes and CRDs, and their indexes by agent pool.

Every replica fills them, so that a new leader starts with current caches.
"""

from dataclasses import dataclass

from cloudprovider.azure.agentpool import pool_name
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES

from .config import Clients


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """`indexes` reads the three reflectors."""

    claims: Reflector[NodeClaim]
    nodes: Reflector[Node]
    crds: Reflector[CustomResourceDefinition]
    indexes: Indexes


def build_caches(clients: Clients) -> Caches:
    """Caches without event handlers; each reflector is filled by its `run`."""
    kube, rng, metrics = clients.kube, clients.rng, clients.metrics
    claims: Reflector[NodeClaim] = Reflector(
        kube, NODECLAIMS, rng=rng, indexes=claim_indexes(pool_name), metrics=metrics.reflector("nodeclaims")
    )
    nodes: Reflector[Node] = Reflector(kube, NODES, rng=rng, indexes=node_indexes(), metrics=metrics.reflector("nodes"))
    crds: Reflector[CustomResourceDefinition] = Reflector(
        kube, CRDS, rng=rng, indexes={}, metrics=metrics.reflector("customresourcedefinitions")
    )
    indexes = Indexes(claims=claims, nodes=nodes, crds=crds, pool_name=pool_name)
    return Caches(claims=claims, nodes=nodes, crds=crds, indexes=indexes)
