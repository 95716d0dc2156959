"""What Nodes of a node class really offer to pods, which replaces what is predicted for their instance type.

The newest registered Node of a size counts, if its machine was created with the node class as it is now: image family,
pods of a Node and OS disk change what a kubelet reserves. Only what the kubelet computes is learned: devices come and
go with their plugins, and labels and taints have other owners. An amount more than 5 % below the prediction counts only
if the Node before showed no more, and one more than 5 % above it never. After 30 days without a Node the prediction
counts again: a size that is not bought any more shows nothing. What only one Node has shown counts for two days after
that Node is gone: it may have been an odd one.

Source: docs/adr/0062-learned-machines.md.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from cloudprovider.cloud import InstanceType
from controllers.nodeclass.hash import spec_hash
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, ObservedType, is_own

from .solver import model
from .solver.reasons import quantity
from .solver.resources import parse

LEARNED = frozenset({"cpu", "ephemeral-storage", "memory", "pods"})
TYPICAL, MOST = 0.95, 1.05
TYPES_MAX = 50
KEPT, KEPT_OF_ONE = timedelta(days=30), timedelta(days=2)
# Amounts that differ by less are the same.
SAME = 1.01


def observed_types(
    node_class: AgentPoolNodeClass,
    known: Iterable[ObservedType],
    nodes: Mapping[str, Node],
    claims: Iterable[NodeClaim],
    now: datetime,
) -> tuple[ObservedType, ...]:
    """What the newest Node of each instance type shows, and the one before it, else what was known before; by name.

    `nodes`: by the UID of their NodeClaim.
    """
    wanted = spec_hash(node_class)
    recent = [one for one in known if one.revision == wanted and now - one.node_created < KEPT]
    present = {node.name for node in nodes.values()}
    found = {one.instance_type: one for one in recent if one.node_name in present or _lasts(one, now)}
    teaching = [nodes[claim.uid] for claim in claims if _teaches(claim, nodes.get(claim.uid), node_class.name, wanted)]
    for node in sorted(teaching, key=lambda node: node.metadata.creation_timestamp):
        size, created = node.metadata.labels.get(labels.INSTANCE_TYPE, ""), node.metadata.creation_timestamp
        shown, last = _shown(node), found.get(size)
        if not size or not shown or (last is not None and created < last.node_created):
            continue
        same = last is not None and last.node_name == node.name
        found[size] = ObservedType(
            instance_type=size,
            allocatable=shown,
            before={} if last is None else last.before if same else last.allocatable,
            node_name=node.name,
            revision=wanted,
            node_created=created,
        )
    kept = sorted(found.values(), key=lambda one: one.node_created, reverse=True)[:TYPES_MAX]
    return tuple(sorted(kept, key=lambda one: one.instance_type))


def _lasts(one: ObservedType, now: datetime) -> bool:
    """Whether what was shown counts without its Node: the Node before offered no more, or it was there lately."""
    shown, before = _amounts(one.allocatable), _amounts(one.before)
    confirmed = all(before.get(name, amount * 2) <= amount * SAME for name, amount in shown.items())
    return confirmed or now - one.node_created < KEPT_OF_ONE


def known_types(node_class: AgentPoolNodeClass) -> tuple[ObservedType, ...]:
    """What the status of a node class states of machines as they are created now."""
    wanted = spec_hash(node_class)
    return tuple(one for one in node_class.status.observed_types if one.revision == wanted)


def corrected(types: tuple[InstanceType, ...], observed: Iterable[ObservedType]) -> tuple[InstanceType, ...]:
    """The instance types with what their Nodes offer."""
    shown = {one.instance_type: (_amounts(one.allocatable), _amounts(one.before)) for one in observed}
    return tuple(_corrected(kind, *shown[kind.name]) if kind.name in shown else kind for kind in types)


def _teaches(claim: NodeClaim, node: Node | None, node_class: str, revision: str) -> bool:
    reference = claim.spec.node_class_ref
    return (
        node is not None
        and is_own(reference)
        and reference.name == node_class
        and claim.metadata.annotations.get(labels.NODECLASS_HASH) == revision
        and node.metadata.labels.get(labels.REGISTERED) == "true"
    )


def _shown(node: Node) -> dict[str, str]:
    amounts = _amounts({name: node.status.allocatable[name] for name in LEARNED if name in node.status.allocatable})
    return {name: quantity(name, amount) for name, amount in amounts.items() if amount > 0}


def _amounts(texts: Mapping[str, str]) -> model.Resources:
    """In thousandths; nothing if one of them is no quantity, as of a Node or a status that others write."""
    try:
        return parse(texts)
    except ValueError:
        return {}


def _corrected(kind: InstanceType, newest: model.Resources, before: model.Resources) -> InstanceType:
    learned = dict(kind.allocatable)
    for name, predicted in kind.allocatable.items():
        amount = newest.get(name, predicted)
        if amount < TYPICAL * predicted:
            # One odd machine does not make a size small for ever: no other one would be bought that shows the contrary.
            amount = max(amount, before.get(name, predicted))
        if amount <= MOST * predicted:
            learned[name] = amount
    return msgspec.structs.replace(kind, allocatable=learned)
