"""Which pods need a machine: those that kube-scheduler found unschedulable, and that a new machine could take.

Source: https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/utils/pod/scheduling.go,
docs/references/karpenter.md#scheduling.
"""

from provisioner.api.schedulable import SchedulablePod

DEFAULT_SCHEDULER = "default-scheduler"
TERMINAL = frozenset({"Succeeded", "Failed"})


def why_not(pod: SchedulablePod) -> str:
    """Why no machine is bought for a pod; "" for a provisionable pod."""
    owners = {(owner.api_version, owner.kind) for owner in pod.metadata.owner_references}
    scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if pod.spec.node_name:
        return "it is bound to a Node"
    if pod.status.phase in TERMINAL:
        return "it has ended"
    if pod.metadata.deleting:
        return "it is being deleted"
    if ("apps/v1", "DaemonSet") in owners:
        return "its DaemonSet creates a pod for each Node"
    if ("v1", "Node") in owners:
        return "it is a static pod of a Node"
    if pod.spec.scheduling_gates:
        return f"scheduling gate {pod.spec.scheduling_gates[0].name}"
    if pod.spec.scheduler_name not in ("", DEFAULT_SCHEDULER):
        return f"scheduler {pod.spec.scheduler_name} places it"
    if pod.status.nominated_node_name:
        return f"it preempts pods of Node {pod.status.nominated_node_name}"
    if scheduled is None or scheduled.status != "False" or scheduled.reason != "Unschedulable":
        return "kube-scheduler has not yet tried to place it"
    return ""
