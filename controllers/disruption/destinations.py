"""Whether the Nodes to which a command moves pods still have the room that its decision counted on.

A decision takes seconds in a large cluster, in which emptiness can remove a Node and kube-scheduler can fill it.

Source: docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Iterable, Mapping

import msgspec

from provisioner.api.node import Node
from provisioner.api.pod import Pod

from .machine import Machine


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about the pods that a Node takes. `node` None: it does not exist. `pods`: the UIDs of its pods."""

    node: Node | None
    pods: frozenset[str]


def rooms(names: Iterable[str], nodes: Iterable[Node], pods: Iterable[Pod]) -> Mapping[str, Room]:
    """The rooms of the Nodes of these names. `nodes` and `pods`: at least those of these Nodes."""
    found: dict[str, set[str]] = {name: set() for name in names}
    known = {node.name: node for node in nodes if node.name in found}
    for pod in pods:
        if (there := found.get(pod.spec.node_name)) is not None:
            there.add(pod.metadata.uid)
    return {name: Room(node=known.get(name), pods=frozenset(uids)) for name, uids in found.items()}


def lost(before: Mapping[str, Room], now: Mapping[str, Room], machines: Iterable[Machine]) -> str:
    """Why a room is not what it was, "" if all are. `machines`: those of NodePools on these Nodes, as they are now."""
    going = {one.claim.status.node_name for one in machines if one.going}
    found = ((name, "is being removed" if name in going else _lost(old, now[name])) for name, old in before.items())
    return next((f"Node {name} {why}" for name, why in found if why), "")


def _lost(before: Room, now: Room) -> str:
    if before.node is None or now.node is None or now.node.deleting:
        return "is gone or being removed"
    if now.node.ready_condition is not None and not now.node.ready:
        return "is not Ready"
    if _content(before.node) != _content(now.node):
        return "takes other pods now"
    return "has other pods now" if now.pods - before.pods else ""


def _content(node: Node) -> tuple[object, ...]:
    """Its conditions change all the time."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable, node.status.allocatable
