"""The caches of one process: reflectors for NodeClaims, Nodes, CRDs, NodePools with what they use, and ResourceSlices.

Every replica fills them, so that a new leader starts with current caches. The caches of NodePools,
AgentPoolNodeClasses and NodeOverlays list and watch only while their CRDs exist, and never if NodePools are disabled;
that of ResourceSlices only while a NodeClaim or a node class needs them.
"""

from dataclasses import dataclass

from controllers.disruption.indexes import disruption_indexes
from controllers.model.crd_deletion import CRD_NAMES
from controllers.nodeclaim.lifecycle import dra
from controllers.provisioning.daemons import scheduled
from controllers.provisioning.pods import PodDigest, pod_indexes
from controllers.reconcile.demand_caches import DemandCaches
from controllers.state.indexes import Indexes, claim_indexes, node_indexes, slice_indexes
from provisioner.api.bounded_digest import BoundedDigest
from provisioner.api.namespace import Namespace, NamespaceDigest
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool
from provisioner.api.resourceslice import ResourceSlice, digest
from provisioner.runtime.named import NamedReflectors
from provisioner.runtime.needed import WhileNeeded, WhileServed
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import (
    CRDS,
    DAEMONSETS,
    NAMESPACES,
    NODECLAIMS,
    NODECLASSES,
    NODEOVERLAYS,
    NODEPOOLS,
    NODES,
    PODDISRUPTIONBUDGETS,
    PODS,
    RESOURCESLICES,
    crd_name,
)

from .config import Clients

# A pod that has ended uses nothing of its Node.
LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """`indexes` reads the first three reflectors, each of which is filled by its `run`.

    `node_pools` has the NodePools of every controller, `node_classes` all AgentPoolNodeClasses, `node_overlays` all
    NodeOverlays. They are filled by `optional`, and are empty and not synced as long as their CRD does not exist or
    NodePools are disabled. Read them only if they are synced: otherwise the objects are unknown. `slices` has the
    ResourceSlices while they are needed.
    """

    claims: Reflector[NodeClaim]
    nodes: Reflector[Node]
    crds: NamedReflectors[CustomResourceDefinition]
    indexes: Indexes
    node_pools: Reflector[NodePool]
    node_classes: Reflector[AgentPoolNodeClass]
    node_overlays: Reflector[NodeOverlay]
    slices: Reflector[ResourceSlice]
    optional: tuple[WhileServed | WhileNeeded, ...]


def build_caches(clients: Clients, *, node_pools: bool = False, slices_read: bool = False) -> Caches:
    """Caches without event handlers. `node_pools`: whether NodePools are enabled.

    `slices_read`: ResourceSlices are needed whatever node classes and claims say.
    """
    kube, rng, metrics, cloud = clients.kube, clients.rng, clients.metrics, clients.cloud
    claims: Reflector[NodeClaim] = Reflector(
        kube,
        NODECLAIMS,
        rng=rng,
        indexes={**claim_indexes(cloud.pool_name), **disruption_indexes()},
        metrics=metrics.reflector("nodeclaims"),
    )
    nodes: Reflector[Node] = Reflector(
        kube,
        NODES,
        rng=rng,
        indexes=node_indexes(cloud.pool_of, cloud.resource_group_of),
        metrics=metrics.reflector("nodes"),
    )
    optional_kinds = (crd_name(NODECLASSES), crd_name(NODEOVERLAYS)) if node_pools else ()
    crds = NamedReflectors(
        kube,
        CRDS,
        [*CRD_NAMES, *optional_kinds],
        rng=rng,
        metrics=metrics.reflector("customresourcedefinitions"),
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
    overlays: Reflector[NodeOverlay] = Reflector(
        kube,
        NODEOVERLAYS,
        rng=rng,
        indexes={},
        metrics=metrics.reflector("nodeoverlays") if node_pools else None,
    )
    slices: Reflector[ResourceSlice] = Reflector(
        kube,
        RESOURCESLICES,
        rng=rng,
        indexes=slice_indexes(),
        digest=digest,
        metrics=metrics.reflector("resourceslices"),
    )
    of_slices = WhileNeeded(
        slices,
        lambda: (
            slices_read or any(map(dra.reads_slices, classes.items())) or any(map(dra.needs_slices, claims.items()))
        ),
    )
    of_slices.needed_by(classes, dra.reads_slices)
    of_slices.needed_by(claims, dra.needs_slices)
    indexes = Indexes(
        claims=claims,
        nodes=nodes,
        crds=crds,
        pool_name=cloud.pool_name,
        pool_of=cloud.pool_of,
        node_classes=classes,
        slices=slices,
    )
    served = (
        WhileServed(classes, NODECLASSES, crds),
        WhileServed(pools, NODEPOOLS, crds),
        WhileServed(overlays, NODEOVERLAYS, crds),
    )
    return Caches(
        claims=claims,
        nodes=nodes,
        crds=crds,
        indexes=indexes,
        node_pools=pools,
        node_classes=classes,
        node_overlays=overlays,
        slices=slices,
        optional=(*(served if node_pools else ()), of_slices),
    )


def build_demand_caches(clients: Clients, caches: Caches, *, gpus_required: bool) -> DemandCaches:
    """What decisions about pods and machines of NodePools read. Those in `while_needed` are filled by their `run`."""
    kube, rng, metrics = clients.kube, clients.rng, clients.metrics
    of_namespaces = NamespaceDigest()
    namespaces: Reflector[Namespace] = Reflector(
        kube,
        NAMESPACES,
        rng=rng,
        indexes={},
        digest=of_namespaces,
        refusals=of_namespaces.refusals,
        metrics=metrics.reflector("namespaces"),
    )

    def number() -> int:
        return len(namespaces.items())

    of_pods, of_daemon_sets, of_budgets = PodDigest(number), BoundedDigest(number), BoundedDigest(number)
    return DemandCaches(
        every_node_pool=caches.node_pools,
        node_classes=caches.node_classes,
        claims=caches.claims,
        nodes=caches.nodes,
        pods=Reflector(
            kube,
            PODS,
            rng=rng,
            indexes=pod_indexes(),
            field_selector=LIVE_PODS,
            digest=of_pods,
            refusals=of_pods.refusals,
            metrics=metrics.reflector("pods"),
        ),
        daemon_sets=Reflector(
            kube,
            DAEMONSETS,
            rng=rng,
            indexes={},
            digest=lambda found: of_daemon_sets(scheduled(found)),
            refusals=of_daemon_sets.refusals,
            metrics=metrics.reflector("daemonsets"),
        ),
        namespaces=namespaces,
        pod_budgets=Reflector(
            kube,
            PODDISRUPTIONBUDGETS,
            rng=rng,
            indexes={},
            digest=of_budgets,
            refusals=of_budgets.refusals,
            metrics=metrics.reflector("poddisruptionbudgets"),
        ),
        slices=caches.slices,
        gpus_required=gpus_required,
    )


def overlays_known(caches: Caches) -> bool:
    """Whether the NodeOverlays were read, or their kind does not exist."""
    absent = caches.crds.synced and caches.crds.get(crd_name(NODEOVERLAYS)) is None
    return absent or caches.node_overlays.synced


def known_node_pools(caches: Caches, *, enabled: bool) -> tuple[NodePool, ...] | None:
    """The NodePools of every controller: () if there can be none, None if they are not known."""
    absent = caches.crds.synced and caches.crds.get(crd_name(NODEPOOLS)) is None
    if not enabled or absent:
        return ()
    return caches.node_pools.items() if caches.node_pools.synced else None
