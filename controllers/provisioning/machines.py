"""The machines that count as capacity: Nodes, and NodeClaims whose Node has not appeared yet.

An object that cannot be read is left out and does not stop the others.

Source: docs/references/karpenter.md#scheduling, docs/references/rules.md#no-machine-is-bought-twice.
"""

import msgspec

from controllers.nodeclaim.lifecycle.dra import DRA
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import counted_in

from .bought_state import START_SECONDS
from .cost import price_of
from .existing import existing_node
from .free_devices import allocated_devices, slices_by_node, with_devices
from .instances import InstanceTypes
from .observed import Observed
from .offered import DEFAULTS, settings_of
from .pods import bound
from .solver import model
from .solver.resources import cost


def machines(
    observed: Observed, types: InstanceTypes
) -> tuple[tuple[tuple[model.ExistingNode, bool], ...], tuple[tuple[Node | NodeClaim, str], ...]]:
    """All machines, and whether each is being removed; and the objects that cannot be read, each with the cause."""
    pods = bound(observed.pods)
    by_node = observed.claims_by_node()
    found, with_node = list[tuple[model.ExistingNode, bool]](), set[str]()
    unreadable = list[tuple[Node | NodeClaim, str]]()
    limited = {pool.name for pool in observed.node_pools if labels.COST_PER_HOUR in pool.spec.limits}
    slices, allocated = slices_by_node(observed.slices), allocated_devices(observed.storage.devices)
    for node in observed.nodes:
        claim = by_node.get(node.name)
        if claim is not None:
            with_node.add(claim.uid)
        leaving = node.deleting or (claim is not None and (claim.deleting or claim.uid in observed.replaced))
        try:
            settings = settings_of(claim.spec.node_class_ref, observed.node_classes) if claim else DEFAULTS
            bound_pods, overdue = tuple(pods.get(node.name, ())), _is_overdue(observed, node)
            kept = _keeps_gpus(observed, claim)
            known = types.of_pool(counted_in(claim)) if claim is not None else types.types
            machine = existing_node(
                node,
                claim,
                bound_pods,
                known,
                settings,
                cloud=types.cloud,
                keeps_gpus=kept and not overdue,
                overdue=overdue,
            )
            if claim is not None and settings.gpu.mode == DRA:
                size = next((one for one in known if one.name == node.metadata.labels.get(labels.INSTANCE_TYPE)), None)
                own = slices.get(node.name, ())
                machine = with_devices(machine, node, claim, size=size, slices=own, allocated=allocated)
            if claim is not None and counted_in(claim) in limited:
                machine = _with_cost(machine, price_of(claim, node, types))
            found.append((machine, leaving))
        except ValueError as error:
            unreadable.append((node, str(error)))
    for claim in observed.claims:
        if claim.uid not in with_node:
            try:
                settings = settings_of(claim.spec.node_class_ref, observed.node_classes)
                known = types.of_pool(counted_in(claim))
                coming = existing_node(None, claim, (), known, settings, cloud=types.cloud)
                if counted_in(claim) in limited:
                    coming = _with_cost(coming, price_of(claim, None, types))
                found.append((coming, claim.deleting))
            except ValueError as error:
                unreadable.append((claim, str(error)))
    return tuple(found), tuple(unreadable)


def _with_cost(machine: model.ExistingNode, price: float | None) -> model.ExistingNode:
    """The machine with what it counts towards the limit on the cost of its NodePool."""
    return msgspec.structs.replace(machine, capacity={**machine.capacity, labels.COST_PER_HOUR: cost(price)})


def _is_overdue(observed: Observed, node: Node) -> bool:
    """Whether a Node has not been initialized in time: a GPU, its driver or an agent is missing for good."""
    if observed.now is None or node.metadata.labels.get(labels.INITIALIZED) == "true":
        return False
    return (observed.now - node.metadata.creation_timestamp).total_seconds() >= START_SECONDS


def _keeps_gpus(observed: Observed, claim: NodeClaim | None) -> bool:
    """Whether GPUs that the Node does not show count as there.

    Until its NodeClaim states that they are lost they are expected within minutes, as when a device plugin starts or
    restarts: pods that became pending meanwhile are to wait for them.
    """
    if claim is None or claim.condition(INITIALIZED, "False") is not None:
        return False
    mode = claim.metadata.annotations.get(labels.GPU_READINESS, "require" if observed.gpus_required else "report")
    return mode != "report"
