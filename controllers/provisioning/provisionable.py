"""Which pods need a machine.

Pending ones that kube-scheduler found unschedulable and that a new machine could take; and running ones that are
created again elsewhere when their Node is removed.

Source: https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/utils/pod/scheduling.go (IsReschedulable),
docs/references/karpenter.md#scheduling.
"""

from provisioner.api import labels
from provisioner.api.pod import Pod

DEFAULT_SCHEDULER = "default-scheduler"
# Of the API server; a status is not checked.
NODE_NAME_MAX = 253


def why_not(pod: Pod) -> str:
    """Why no machine is bought for a pod; "" for a provisionable pod."""
    if pod.spec.node_name:
        return "it is bound to a Node"
    if pod.ended:
        return "it has ended"
    if pod.metadata.deleting:
        return "it is being deleted"
    if pod.metadata.daemon_set is not None:
        return "its DaemonSet creates a pod for each Node"
    if pod.metadata.mirrored_by is not None:
        return "it is a static pod of a Node"
    if pod.spec.scheduling_gates:
        return f"scheduling gate {pod.spec.scheduling_gates[0].name}"
    if pod.spec.scheduler_name not in ("", DEFAULT_SCHEDULER):
        return f"scheduler {pod.spec.scheduler_name} places it"
    if pod.status.nominated_node_name:
        return f"it preempts pods of Node {pod.status.nominated_node_name}"
    scheduled = pod.condition("PodScheduled", "False")
    if scheduled is None or scheduled.reason != "Unschedulable":
        return "kube-scheduler has not yet tried to place it"
    return ""


def nominated_node(pod: Pod) -> str:
    """The Node on which kube-scheduler makes room for a pending pod by preemption; "" without one."""
    if pod.spec.node_name or pod.metadata.deleting or pod.ended:
        return ""
    return pod.status.nominated_node_name[:NODE_NAME_MAX]


def is_recreated(pod: Pod) -> bool:
    """Whether a bound pod is created again elsewhere once it is evicted.

    Its controller creates another pod as soon as this one is being deleted; a StatefulSet waits until it is gone. A pod
    without a controller is not created again.
    """
    meta = pod.metadata
    owner = next((one for one in meta.owner_references if one.controller), None)
    if owner is None or pod.ended or meta.daemon_set is not None or meta.mirrored_by is not None:
        return False
    return not meta.deleting or (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet")


def runs_on(pod: Pod) -> bool:
    """Whether do-not-disrupt keeps it running for now when its Node is removed."""
    return pod.metadata.annotations.get(labels.DO_NOT_DISRUPT, "false") != "false"
