"""The caches that decisions about machines of NodePools read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloudprovider.interface import QuotaLeft
from controllers.disruption.commands_under_way import replaced, replaced_by, replaces
from controllers.disruption.indexes import related
from controllers.model.storage import Storage
from controllers.nodeclaim.lifecycle.dra import publishes_gpus
from controllers.provisioning.brake import Brake
from controllers.provisioning.daemons import daemon_specs
from controllers.provisioning.launchable import Refusals
from controllers.provisioning.observed import Observed
from controllers.provisioning.offered import settings_of
from controllers.provisioning.pods import BY_NODE, CachedPod
from controllers.provisioning.solver import model
from controllers.state.indexes import UID
from provisioner.api import labels
from provisioner.api.namespace import Namespace, labels_of
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec, ObservedDaemonSet, is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_member, nodepool_of
from provisioner.api.pod import Pod
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.resourceslice import ResourceSlice
from provisioner.api.workload import DaemonSet
from provisioner.runtime.reflector import Reflector

NO_REFUSALS: Mapping[str, Refusals] = {}
NO_QUOTAS: Mapping[str, QuotaLeft] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandCaches:
    """`every_node_pool`: also those of other controllers. `slices` is empty while not needed.

    `gpus_required`: machines are not initialized without their GPUs.
    """

    every_node_pool: Reflector[NodePool]
    node_classes: Reflector[AgentPoolNodeClass]
    claims: Reflector[NodeClaim]
    nodes: Reflector[Node]
    pods: Reflector[Pod]
    daemon_sets: Reflector[DaemonSet]
    namespaces: Reflector[Namespace]
    pod_budgets: Reflector[PodDisruptionBudget]
    slices: Reflector[ResourceSlice]
    gpus_required: bool = True

    @property
    def while_needed(self) -> tuple[Reflector[Any], ...]:
        """Those that are filled only while there is a NodePool."""
        return self.pods, self.daemon_sets, self.namespaces, self.pod_budgets

    def node_pools(self) -> tuple[NodePool, ...]:
        """The NodePools of this controller."""
        return tuple(one for one in self.every_node_pool.items() if is_own(one.spec.template.spec.node_class_ref))

    def node_pool(self, name: str) -> NodePool | None:
        """The NodePool of this controller that has this name."""
        found = self.every_node_pool.get(name)
        return found if found is not None and is_own(found.spec.template.spec.node_class_ref) else None

    def node_pool_of(self, claim: NodeClaim) -> NodePool | None:
        """The NodePool of this controller whose machine the NodeClaim is."""
        owner = nodepool_of(claim)
        pool = self.node_pool(owner.name) if owner is not None else None
        return pool if pool is not None and is_member(claim, pool) else None

    def node_class(self, name: str) -> AgentPoolNodeClass | None:
        """None if it does not exist or is not known."""
        return self.node_classes.get(name)

    @property
    def current(self) -> bool:
        """Whether all of them were listed and are being watched; a failed list of Namespaces concerns few pods."""
        caches = (self.claims, self.nodes, self.pods, self.daemon_sets)
        known = self.namespaces.synced or self.namespaces.last_error is not None
        return known and all(cache.synced and cache.last_error is None for cache in caches)

    def node_of(self, claim: NodeClaim) -> Node | None:
        """The Node that the NodeClaim states; None before it does, and once the Node is gone."""
        return self.nodes.get(claim.status.node_name)

    def nodes_by_claim(self) -> dict[str, Node]:
        """The Nodes by the UID of the NodeClaim that their label names, those of machines that are starting too."""
        return {node.metadata.labels.get(labels.CLAIM_UID, ""): node for node in self.nodes.items()}

    def pods_on(self, node: str, *, by: str = BY_NODE) -> tuple[CachedPod, ...]:
        """The pods that are bound to the Node of this name, or for which kube-scheduler makes room there."""
        return tuple(one for one in self.pods.by_index(by, node) if isinstance(one, CachedPod))

    def of_commands(self) -> tuple[NodeClaim, ...]:
        """The machines of NodePools that a command disrupts, and those that may be their replacements."""
        return related(self.claims.by_index)

    def replaces_another(self, claim: NodeClaim) -> bool:
        """Whether a command under way waits for this NodeClaim, to delete the one that it replaces."""
        found = (one for uid in replaced_by(claim) for one in self.claims.by_index(UID, uid))
        return any(replaces(claim, one) for one in found)

    def observed(
        self,
        claims: Sequence[NodeClaim],
        max_new: int | None,
        storage: Storage,
        refused: Mapping[str, Refusals] = NO_REFUSALS,
        *,
        brake: Brake | None = None,
        quotas: Mapping[str, QuotaLeft] = NO_QUOTAS,
    ) -> Observed:
        """What a decision reads of them now. `claims`: those that count. `refused`: what NodePools cannot launch."""
        return Observed(
            node_pools=self.node_pools(),
            nodes=self.nodes.items(),
            claims=claims,
            pods=self.pods.items(),
            daemons=self.daemons(),
            max_new=max_new,
            storage=storage,
            node_classes=self.node_classes_of(claims),
            gpus_required=self.gpus_required,
            slices=self.slices.items(),
            refused=refused,
            brake=brake,
            quotas=quotas,
            replaced=replaced(claims),
            namespaces={one.metadata.name: labels_of(one) for one in self.namespaces.items()},
            namespaces_error="" if self.namespaces.synced else str(self.namespaces.last_error),
            now=None if brake is None else brake.now,
        )

    def daemons(self) -> tuple[model.PodSpec, ...]:
        """The constraints of the pods that DaemonSets create on a machine."""
        known = self.observed_daemon_sets()
        return daemon_specs(self.daemon_sets.items(), self.pods.items(), known)

    def observed_daemon_sets(self) -> tuple[ObservedDaemonSet, ...]:
        """What the node classes state of them."""
        return tuple(one for of in self.node_classes_of(()).values() for one in of.status.observed_daemon_sets)

    @property
    def of_drivers(self) -> bool:
        """Whether a DRA driver publishes the GPUs of machines of a NodePool."""
        return any(map(publishes_gpus, self.node_classes_of(()).values()))

    def settings_of(self, pool: NodePool) -> NodeClassSpec:
        """The properties of the machines of this NodePool."""
        return settings_of(pool.spec.template.spec.node_class_ref, self.node_classes_of(()))

    def node_classes_of(self, claims: Sequence[NodeClaim]) -> dict[str, AgentPoolNodeClass]:
        """The known node classes of these claims and of all NodePools, by name."""
        references = {one.spec.template.spec.node_class_ref for one in self.node_pools()}
        references |= {one.spec.node_class_ref for one in claims}
        found = (self.node_class(one.name) for one in references if is_own(one))
        return {one.name: one for one in found if one is not None}
