"""Objects of the GPU Kernel Manager (GKM) that remain of a Node that is gone.

The agent of a Node removes its finalizers; with the Node, it is gone too. An object is stale if its Node, whose name it
has, does not exist and was a machine of AKS: a user's object of another name is never one. Pure.

Source: docs/references/kubernetes.md#gpu-kernel-manager.
"""

from collections.abc import Callable

from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.aks_names import pool_of
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.runtime.objects import EVENT_TTL_SECONDS

GROUP, VERSION = "gkm.io", "v1alpha1"
RESOURCES = ("gkmcachenodes", "clustergkmcachenodes")
# How long a Node must be gone: one that registers again has its object back in use.
STALE_SECONDS = 60.0
_FINALIZER = "gkm.io."


def is_stale(meta: ObjectMeta, node_of: Callable[[str], Node | None]) -> bool:
    """Whether this object is of a machine of AKS whose Node does not exist."""
    return node_of(meta.name) is None and bool(pool_of(Node(metadata=ObjectMeta(name=meta.name))))


def kept_finalizers(meta: ObjectMeta) -> tuple[str, ...]:
    """The finalizers that are not of GKM's agent."""
    return tuple(one for one in meta.finalizers if not one.startswith(_FINALIZER))


def stale_event(meta: ObjectMeta) -> Event:
    """The Event about an object that is only reported."""
    message = (
        f"Node {meta.name} is gone, and GKM still counts it: a deleted cache waits for this object; delete it and its"
        " finalizers, or enable the chart's value gkm.cleanup"
    )
    return Event(type="Warning", reason=reasons.STALE_CACHE_NODE, message=message, repeat_seconds=EVENT_TTL_SECONDS)
