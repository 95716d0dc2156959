"""A Node that shows its GPUs and rejects each pod that requests some: it gets no new pods until that can have ended.

kube-scheduler prefers such a Node, because it looks empty, and a Job spends its backoffLimit there. One rejected pod is
no sign, nor are several at one moment: a kubelet that restarts shows the numbers from before for seconds. The Node is
marked as unschedulable, which its device plugin tolerates, and an annotation records that this controller did it. It
is released once a container of the device plugin, or the Node, has started anew, or its GPUs were gone and returned; a
user may do so at any time. Pure.

Source: docs/references/kubernetes.md#pods-that-the-kubelet-rejects.
"""

from collections.abc import Iterable
from datetime import datetime

from controllers.model.conditions import clock_text
from controllers.model.diagnosis import Workloads
from controllers.model.patches import add_keys
from controllers.model.steps import Event, PatchNode
from controllers.nodeclaim.lifecycle.expected_gpus import amount
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.pod import Pod
from provisioner.api.time import parse_rfc3339, rfc3339
from provisioner.vendors import is_gpu

from .admission_errors import AdmissionError, AdmissionFailure
from .diagnosis import is_managed
from .plugin_pods import pod_of
from .plugins import device_plugins

# So many pods, the last of them so long after the first, of those that were created within the window.
PODS, SPREAD_SECONDS, WINDOW_SECONDS = 3, 300.0, 3600.0
# How often a Node that was cordoned is looked at.
CHECK_SECONDS = 300.0
# Of all Nodes, the share that is cordoned at most: beyond it, the device plugin itself is broken.
SHARE = 0.2
OF_DEVICE_MANAGER = (AdmissionFailure.UNREGISTERED, AdmissionFailure.UNHEALTHY)
RELEASED = "released "


def rejects_pods(
    node: Node,
    errors: Iterable[AdmissionError],
    ran_at: datetime | None,
    now: datetime,
    *,
    elsewhere: datetime | None,
) -> str:
    """Which pods show that the Node rejects all of them; "" if that is not shown.

    `ran_at`: when a pod with GPUs was last seen to become Ready there, `elsewhere`: on another Node. What the device
    manager itself rejects contradicts the numbers of the Node. Of other causes, pods of as many owners are needed,
    while others run elsewhere: the pods of one owner can be wrong themselves, and so can the plugin of all Nodes.
    """
    if not node.ready or not resource_of(node):
        return ""
    after = max(one for one in (ran_at, decided_at(node), node.metadata.creation_timestamp) if one is not None)
    counted = [
        one
        for one in errors
        if one.failure in (*OF_DEVICE_MANAGER, AdmissionFailure.OTHER)
        and after < one.created
        and (now - one.created).total_seconds() <= WINDOW_SECONDS
    ]
    certain = sum(one.failure in OF_DEVICE_MANAGER for one in counted)
    runs_elsewhere = elsewhere is not None and (now - elsewhere).total_seconds() <= WINDOW_SECONDS
    owners = len({one.owner for one in counted}) if runs_elsewhere else 0
    if max(certain, owners) < PODS:
        return ""
    first, last = min(one.created for one in counted), max(counted, key=lambda one: one.created)
    if (last.created - first).total_seconds() < SPREAD_SECONDS:
        return ""
    return f"{len(counted)} Pods since {clock_text(first)}, last {last.pod} ({last.text})"


def resource_of(node: Node) -> str:
    """The resource of the GPUs that the Node shows; "" without any."""
    amounts = node.status.allocatable
    return next((name for name in sorted(amounts) if is_gpu(name) and amount(amounts, name) > 0), "")


def is_cordoned(node: Node) -> bool:
    """Whether this controller cordoned the Node because it rejects pods."""
    found = node.metadata.annotations.get(labels.REJECTS_PODS, "")
    return bool(found) and not found.startswith(RELEASED)


def decided_at(node: Node) -> datetime | None:
    """When the Node was cordoned for this, or released; None if it never was."""
    found = node.metadata.annotations.get(labels.REJECTS_PODS, "").removeprefix(RELEASED)
    return parse_rfc3339(found)


def too_many(nodes: Iterable[Node]) -> bool:
    """Whether one more cordon exceeds the share of these Nodes; the first one never does."""
    all_nodes = tuple(nodes)
    return sum(map(is_cordoned, all_nodes)) >= max(1, int(SHARE * len(all_nodes)))


def restarted(node: Node, found: Workloads, returned_at: datetime | None) -> bool:
    """Whether the Node, or its device plugin, has started since it was cordoned; what is not known has not.

    `returned_at`: when the GPUs were last seen to return after none was allocatable. A plugin that is a service of the
    Node has no pod that shows its start.
    """
    since, ready = decided_at(node), node.ready_condition
    if since is None:
        return False
    changed = ready.last_transition_time if ready is not None and node.ready else None
    if any(one is not None and one > since for one in (changed, returned_at)):
        return True
    pods = (pod_of(one, found.pods) for one in device_plugins(found.daemon_sets or (), resource_of(node), node))
    return any(pod is not None and _started(pod) > since for pod in pods)


def _started(pod: Pod) -> datetime:
    """When the pod, or a container of it, was last started: its plugin registers with the kubelet then."""
    states = (one.state.running for one in pod.status.container_statuses)
    started = (one.started_at for one in states if one is not None and one.started_at is not None)
    return max(started, default=pod.metadata.creation_timestamp)


def cordon(node: Node, now: datetime) -> PatchNode:
    """Mark the Node as unschedulable, and record why."""
    patch = (
        {"op": "add", "path": "/spec/unschedulable", "value": True},
        *add_keys("/metadata/annotations", node.metadata.annotations, {labels.REJECTS_PODS: rfc3339(now)}),
    )
    return PatchNode(node=node, patch=patch, why="cordon the Node: it rejects pods with GPUs")


def release(node: Node, now: datetime) -> PatchNode:
    """Take the mark back. A user who did so before is recorded as well: older pods do not count again."""
    noted = add_keys("/metadata/annotations", node.metadata.annotations, {labels.REJECTS_PODS: RELEASED + rfc3339(now)})
    schedulable = ({"op": "remove", "path": "/spec/unschedulable"},) if node.spec.unschedulable else ()
    return PatchNode(node=node, patch=(*schedulable, *noted), why="uncordon the Node: its device plugin restarted")


def event(node: Node, found: str) -> Event:
    """The Event of a Node that is cordoned."""
    message = f"cordoned Node {node.name}: it shows its GPUs, and the kubelet rejected {found}; {_remedy(node)}"
    return Event(type="Warning", reason=reasons.UNEXPECTED_ADMISSION_ERROR, message=message)


def message(node: Node) -> str:
    """What the condition of the claim says of a Node that is cordoned for this; "" of any other."""
    since = decided_at(node) if is_cordoned(node) else None
    if since is None:
        return ""
    return (
        f"Node {node.name} shows its GPUs and rejects each pod that requests some; cordoned since {clock_text(since)},"
        f" until its device plugin is restarted: {_remedy(node)}"
    )


def _remedy(node: Node) -> str:
    restart = "restart the Node" if is_managed(node) else "delete the plugin's pod"
    return f"{restart}, or delete the NodeClaim"
