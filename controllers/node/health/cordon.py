"""A Node that is to get no new pods: it is marked as unschedulable, until what was found is gone.

Rows of the repair policy cordon with the action Cordon, and before the repair of a machine that still works, also with
some of its GPUs from the start. What a row cordons for is reported by the condition of the claim. `spec.unschedulable`
is used instead of a taint, because the pods of every DaemonSet tolerate it: a device plugin that was restarted can run,
and its GPUs return. A Node that a user or another controller cordoned is left as it is; when that was first seen is
written on it, so that a new leader continues the wait for its pods. A Node that has lost some of its GPUs takes pods
for the others while it is kept because no other machine can be had, or because others of its size failed in the same
way.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations.
"""

import math

from controllers.model.facts import Facts
from controllers.model.patches import Operation, add_keys, escaped
from controllers.model.steps import PatchNode
from controllers.nodeclaim.lifecycle.gpu_resources import gpu_state
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.time import parse_rfc3339, rfc3339

from . import another, limits


def step(f: Facts, *, enabled: bool) -> PatchNode | None:
    """Cordon the Node, or undo that; None if it is as it should be."""
    node = f.node
    if node is None or "PatchNode" in f.refused:
        return None
    keeps_serving = serves_on(f)
    wanted = enabled and _wanted_at(f) < math.inf and not keeps_serving
    if wanted and not node.spec.unschedulable and seconds_left(f) <= 0 and not blocked(f) and f.kube_current:
        return _cordon(f, node)
    if (
        labels.CORDONED_AT in node.metadata.annotations
        and not wanted
        and (not enabled or keeps_serving or is_over(f, node))
    ):
        why = another.obstacle(f) or "its repair is suspended"
        return _uncordon(node, why if keeps_serving else "its condition is gone")
    return _note_others(f, node, enabled=enabled)


def _note_others(f: Facts, node: Node, *, enabled: bool) -> PatchNode | None:
    """Write when a cordon of others was first seen, or remove that; None if it is as it should be."""
    noted = labels.CORDON_SEEN_AT in node.metadata.annotations
    others = enabled and node.spec.unschedulable and labels.CORDONED_AT not in node.metadata.annotations
    if others and not noted and seconds_left(f) <= 0 and f.unhealthy is not None and f.unhealthy.replaces:
        patch = add_keys("/metadata/annotations", node.metadata.annotations, {labels.CORDON_SEEN_AT: rfc3339(f.now)})
        return PatchNode(node=node, patch=patch, why="its pods are waited for since a cordon of others")
    if noted and not (others and (_wanted_at(f) < math.inf or not is_over(f, node))):
        return PatchNode(node=node, patch=(_removed(labels.CORDON_SEEN_AT),), why="no cordon of others counts")
    return None


def serves_on(f: Facts) -> bool:
    """Whether the Node is to take pods although GPUs are lost: it is kept, because no other one can be had or helps.

    The kubelet gives pods none of the GPUs that its device plugin reports as unhealthy, or omits. Other signals are
    about all of the Node. Until it is known whether another machine can be had, a Node that takes pods goes on.
    """
    unhealthy, state, node = f.unhealthy, gpu_state(f), f.node
    if unhealthy is None or node is None or not node.ready or not unhealthy.only_lost_gpus:
        return False
    if state is None or state.driver or state.holding or state.unknown or not state.allocatable:
        return False
    if limits.suspended(f):
        return True
    found = another.place(f)
    return found == "Scarce" or (found == "Unknown" and not node.spec.unschedulable)


def age(f: Facts, node: Node) -> float:
    """Seconds since the Node takes no new pods, as a process before has written it; 0 if it takes some."""
    notes = node.metadata.annotations
    since = parse_rfc3339(notes.get(labels.CORDONED_AT, "") or notes.get(labels.CORDON_SEEN_AT, ""))
    stated = 0.0 if since is None or not node.spec.unschedulable else (f.now - since).total_seconds()
    return max(stated, observed_age(f, node))


def observed_age(f: Facts, node: Node) -> float:
    """Seconds for which this process has seen that the Node takes no new pods; 0 if it takes some."""
    seen = f.devices
    known = seen is not None and seen.node_uid == node.uid and node.spec.unschedulable
    return f.loop_now - seen.closed_since if known and seen is not None and seen.closed_since is not None else 0.0


def precedes(f: Facts, node: Node, *, enabled: bool) -> bool:
    """Whether the Node takes no new pods before its machine is replaced: it does not already, or will be cordoned."""
    cordons = enabled and "PatchNode" not in f.refused
    return _wanted_at(f) < math.inf and (node.spec.unschedulable or cordons)


def is_over(f: Facts, node: Node) -> bool:
    """Whether what the Node was cordoned for is known to be over.

    No signal is no proof: while the Node is not Ready, after a restart of its kubelet, and for minutes after a start of
    this process, missing GPUs are none. Those that are missing by a setting were not lost.
    """
    state = gpu_state(f)
    lacks = state is not None and state.short and state.disagrees is None
    return node.ready and not (lacks or (state is not None and (state.holding or state.unknown)))


def blocked(f: Facts) -> bool:
    """Whether so many Nodes have the signal that a cordon of each would leave none."""
    counts = f.counts.unhealthy_counts
    return limits.fail_together(f.policy, counts) or bool(limits.rolls_out(f.policy, counts))


def seconds_left(f: Facts) -> float:
    """Seconds until the Node is cordoned; inf if it is not to be."""
    return _wanted_at(f) - f.loop_now


def _wanted_at(f: Facts) -> float:
    return f.unhealthy.cordon_at if f.unhealthy is not None else math.inf


def _cordon(f: Facts, node: Node) -> PatchNode:
    patch = (
        {"op": "add", "path": "/spec/unschedulable", "value": True},
        *add_keys("/metadata/annotations", node.metadata.annotations, {labels.CORDONED_AT: rfc3339(f.now)}),
    )
    why = f.unhealthy.policy.name if f.unhealthy is not None else ""
    return PatchNode(node=node, patch=patch, why=f"cordon the Node: {why}")


def _uncordon(node: Node, why: str) -> PatchNode:
    annotation = _removed(labels.CORDONED_AT)
    schedulable = {"op": "remove", "path": "/spec/unschedulable"}
    patch = (schedulable, annotation) if node.spec.unschedulable else (annotation,)
    return PatchNode(node=node, patch=patch, why=f"uncordon the Node: {why}")


def _removed(annotation: str) -> Operation:
    return {"op": "remove", "path": f"/metadata/annotations/{escaped(annotation)}"}
