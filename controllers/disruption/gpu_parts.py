"""How the GPUs of machines are divided: for a running pod, whole GPUs, MIG slices and shared GPUs are different models.

Without names of their own, all of them are `nvidia.com/gpu`, so that neither the size of a machine nor the requests of
a pod show the difference. What the Node shows decides, because the node class can have changed since; what it does not
show yet, its node class states.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/agent-pools.md#mig-slices.
"""

import msgspec

from cloudprovider.cloud import Cloud
from cloudprovider.interface import Gpus
from controllers.model.gpu_devices import declares_devices, expected_devices
from controllers.provisioning.observed import Observed
from controllers.provisioning.offered import settings_of
from controllers.provisioning.solver import model
from controllers.provisioning.solver.resources import parse
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClassReference
from provisioner.api.nodeclass import GpuSettings
from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import one_of
from provisioner.vendors import VENDORS, is_divisible

# The label by which a simulation compares machines; no object in the cluster has it.
PARTS = f"{labels.OWN_DOMAIN}/gpu-parts"
WHOLE, UNREADABLE = "whole", "unreadable"


def stated(settings: GpuSettings) -> str:
    """The division that a node class states."""
    return f"{settings.mig_profile} {settings.shared_replicas}" if declares_devices(settings) else WHOLE


def shown(node: Node, gpus: Gpus, settings: GpuSettings) -> str:
    """The division that a Node shows. `gpus`: of its size. `settings`: of its node class, or the defaults."""
    try:
        amounts = parse({name: amount for name, amount in node.status.capacity.items() if is_divisible(name)})
    except ValueError:
        return UNREADABLE
    found = {name: amount // 1000 for name, amount in amounts.items() if amount > 0}
    if not found or not gpus.count:
        return stated(settings)
    expected, count = expected_devices(gpus, settings), found.get(gpus.resource, 0)
    if not declares_devices(settings) and (product := _divided_product(node)):
        return product
    is_whole = found.keys() == {gpus.resource} and count == gpus.count != expected.count
    if not is_whole and 0 < found.get(expected.resource, 0) <= expected.count:
        return stated(settings)
    if found.keys() == {gpus.resource} and count <= gpus.count:
        return WHOLE
    return " ".join([*sorted(found), f"{count}/{gpus.count}"])


def _divided_product(node: Node) -> str:
    """The name of the product if it states a division; "" otherwise."""
    for vendor in VENDORS:
        product, division = node.metadata.labels.get(vendor.product, ""), vendor.division
        if division and (division.slice_product in product or product.endswith(division.shared_product)):
            return product
    return ""


class GpuParts:
    """The divisions of the machines in a cluster, and of those that its NodePools create.

    Where all are equal, nothing is compared, so that simulations cost the same as without it.
    """

    def __init__(self, observed: Observed, cloud: Cloud) -> None:
        def of(reference: NodeClassReference) -> GpuSettings:
            return settings_of(reference, observed.node_classes).gpu

        self._pools = {one.name: stated(of(one.spec.template.spec.node_class_ref)) for one in observed.node_pools}
        claims = observed.claims_by_node()
        self._machines = {claim.name: stated(of(claim.spec.node_class_ref)) for claim in observed.claims}
        for node in observed.nodes:
            claim = claims.get(node.name)
            settings = of(claim.spec.node_class_ref) if claim is not None else GpuSettings()
            size = node.metadata.labels.get(labels.INSTANCE_TYPE, "")
            self._machines[node.name] = shown(node, cloud.gpus_of(size), settings)
        self._differ = len({*self._pools.values(), *self._machines.values()}) > 1

    def of(self, machine: str) -> Requirements:
        """What keeps a pod on machines whose GPUs are divided as those of this one, by the name of its Node."""
        return {PARTS: one_of((self._machines.get(machine, WHOLE),))} if self._differ else {}

    def labelled(self, snapshot: model.Snapshot) -> model.Snapshot:
        """The snapshot whose machines and NodePools have the label."""
        if not self._differ:
            return snapshot
        nodes = tuple(
            msgspec.structs.replace(one, requirements={**one.requirements, **self.of(one.name)})
            for one in snapshot.nodes
        )
        pools = tuple(
            msgspec.structs.replace(one, requirements={**one.requirements, PARTS: one_of((self._pools[one.name],))})
            for one in snapshot.node_pools
        )
        return msgspec.structs.replace(snapshot, nodes=nodes, node_pools=pools)


def unlabelled(decision: model.Decision) -> model.Decision:
    """The decision without the label in what it buys."""
    if not any(PARTS in one.requirements for one in decision.machines):
        return decision
    machines = tuple(
        msgspec.structs.replace(one, requirements={k: v for k, v in one.requirements.items() if k != PARTS})
        for one in decision.machines
    )
    return msgspec.structs.replace(decision, machines=machines)
