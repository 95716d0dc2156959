"""What a scheduling decision reads of the caches of the controller."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime

import msgspec

from cloudprovider.interface import QuotaLeft
from controllers.model.storage import Storage
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.api.resourceslice import ResourceSlice

from .brake import Brake
from .launchable import Refusals
from .offered import NodeClasses
from .solver import model


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the caches hold. `max_new`: how many agent pools may still be created. `storage`: the volumes of pods.

    `node_classes`: those that NodePools and NodeClaims refer to, by name. `gpus_required`: machines are not initialized
    without their GPUs. `slices`: the ResourceSlices of all Nodes. `refused`: what NodePools cannot launch, by name.
    `namespaces`: the labels of Namespaces by name, None if they are too large; `namespaces_error`: why none are known.
    `brake`: what did not take pods before; None where nothing is bought. `quotas`: what new machines may use of each
    quota, by its name.
    `replaced`: the UIDs of NodeClaims whose replacements exist, so that their pods need room there.
    `now`: when a Node that is not initialized is overdue; None: never.
    """

    node_pools: Sequence[NodePool]
    nodes: Sequence[Node]
    claims: Sequence[NodeClaim]
    pods: Sequence[Pod]
    daemons: tuple[model.PodSpec, ...] = ()
    max_new: int | None = None
    storage: Storage = Storage()
    node_classes: NodeClasses = {}
    gpus_required: bool = True
    slices: Sequence[ResourceSlice] = ()
    refused: Mapping[str, Refusals] = {}
    namespaces: Mapping[str, Mapping[str, str] | None] = {}
    namespaces_error: str = ""
    brake: Brake | None = None
    quotas: Mapping[str, QuotaLeft] = {}
    replaced: Set[str] = frozenset()
    now: datetime | None = None

    def claims_by_node(self) -> dict[str, NodeClaim]:
        """The NodeClaims that have a Node, by its name; also that of a further Node of the agent pool."""
        by_uid = {claim.uid: claim for claim in self.claims}
        stated = {claim.status.node_name: claim for claim in self.claims if claim.status.node_name}
        marks = ((node.name, by_uid.get(node.metadata.labels.get(labels.CLAIM_UID, ""))) for node in self.nodes)
        return stated | {name: claim for name, claim in marks if claim is not None}
