"""A Node that lacks some of its GPUs gets no new pods: it is marked as unschedulable until they are all back.

`spec.unschedulable` is used instead of a taint, because the pods of every DaemonSet tolerate it: a device plugin that
was restarted can run, and its GPUs return. A Node that a user or another controller cordoned is left as it is.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations.
"""

import math

from controllers.model.facts import Facts
from controllers.model.node_for_claim import node_for_claim
from controllers.model.patches import add_keys
from controllers.model.steps import PatchNode
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.repair_policy import GPU_PARTIAL
from provisioner.api.time import rfc3339

from . import limits


def is_partial(f: Facts) -> bool:
    """Whether the machine lacks some of its GPUs, and a repair of it is to follow."""
    unhealthy = f.unhealthy
    return unhealthy is not None and unhealthy.replaces and unhealthy.policy.group == GPU_PARTIAL


def step(f: Facts, *, enabled: bool) -> PatchNode | None:
    """Cordon the Node, or undo that; None if it is as it should be."""
    node = node_for_claim(f)
    if node is None or "PatchNode" in f.refused:
        return None
    partial = f.unhealthy is not None and any(sight.group == GPU_PARTIAL for sight in f.unhealthy.sights)
    if enabled and is_partial(f) and not node.spec.unschedulable:
        together = limits.fail_together(f.policy, f.counts.unhealthy_counts)
        return None if together or seconds_left(f) > 0 or not f.kube_current else _cordon(f, node)
    if labels.CORDONED_AT in node.metadata.annotations and not (partial and enabled):
        return _uncordon(node)
    return None


def seconds_left(f: Facts) -> float:
    """Seconds until the Node is cordoned: by then, other Nodes that lack GPUs for the same cause are observed too."""
    if f.unhealthy is None or not is_partial(f):
        return math.inf
    return f.policy.repair_watch_seconds - f.unhealthy.observed_age(f.loop_now)


def _cordon(f: Facts, node: Node) -> PatchNode:
    patch = (
        {"op": "add", "path": "/spec/unschedulable", "value": True},
        *add_keys("/metadata/annotations", node.metadata.annotations, {labels.CORDONED_AT: rfc3339(f.now)}),
    )
    return PatchNode(node=node, patch=patch, why="cordon the Node: some of its GPUs are missing")


def _uncordon(node: Node) -> PatchNode:
    key = labels.CORDONED_AT.replace("/", "~1")
    annotation = {"op": "remove", "path": f"/metadata/annotations/{key}"}
    schedulable = {"op": "remove", "path": "/spec/unschedulable"}
    patch = (schedulable, annotation) if node.spec.unschedulable else (annotation,)
    return PatchNode(node=node, patch=patch, why="uncordon the Node: its GPUs are back")
