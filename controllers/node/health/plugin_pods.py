"""The pods of a device plugin: which one is on a Node, and why it does not run.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/,
docs/references/kubernetes.md#device-plugins-in-a-cluster.
"""

from collections.abc import Iterable

from controllers.model.diagnosis import PodName
from provisioner.api.node import Node
from provisioner.api.pod import ContainerStatus, Pod
from provisioner.api.workload import DaemonSet

# Waiting reasons of a container that was started and failed. Others, such as ContainerCreating, ImagePullBackOff or
# CreateContainerConfigError, come before the program: its image, its configuration, its volumes.
STARTED = frozenset({"CrashLoopBackOff", "RunContainerError", "CreateContainerError"})
NO_IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})


def pod_of(owner: DaemonSet, pods: Iterable[Pod]) -> Pod | None:
    """The newest pod of this DaemonSet, one that is not being deleted first."""
    owned = [one for one in pods if any(ref.uid == owner.metadata.uid for ref in one.metadata.owner_references)]
    newest = sorted(owned, key=lambda one: (not one.metadata.deleting, one.metadata.creation_timestamp))
    return newest[-1] if newest else None


def not_running(pod: Pod) -> str:
    """Why the pod does not run, with the number of restarts; "" if it runs."""
    if pod.metadata.deleting:
        return "it is being deleted"
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for one in statuses:
        if reason := _stopped(one, init=one in pod.status.init_container_statuses):
            restarts = f", {one.restart_count} restarts" if one.restart_count else ""
            return reason + restarts
    if pod.status.phase == "Running":
        return ""
    return pod.status.reason or f"phase {pod.status.phase or 'Pending'}"


def _stopped(container: ContainerStatus, *, init: bool) -> str:
    waiting, ended = container.state.waiting, container.state.terminated
    where = f"init container {container.name}: " if init else ""
    if waiting is not None:
        return where + (waiting.reason or "waiting")
    if ended is not None and not (init and ended.exit_code == 0):
        return where + (ended.reason or "ended") + f", exit code {ended.exit_code}"
    return ""


def crashes(pod: Pod) -> bool:
    """Whether a container of the pod was started and failed, its init containers aside."""
    states = [one.state for one in pod.status.container_statuses]
    return not pod.metadata.deleting and any(
        one.terminated is not None or (one.waiting is not None and one.waiting.reason in STARTED) for one in states
    )


def is_rolled_out(owner: DaemonSet) -> bool:
    """Whether all pods of the DaemonSet have its newest revision, as far as its status is known."""
    status = owner.status
    behind = status.observed_generation < owner.metadata.generation
    return not status.observed_generation or not (
        behind or status.updated_number_scheduled < status.desired_number_scheduled
    )


def runs_on_all_others(owner: DaemonSet) -> bool:
    """Whether all pods of the DaemonSet but at most one are Ready, at the same revision, and there are others."""
    wanted = owner.status.desired_number_scheduled
    return is_rolled_out(owner) and wanted > 1 and owner.status.number_ready >= wanted - 1


def failing_remedy(pod: Pod, broken: str) -> str:
    """What to do about a pod that does not run for this reason."""
    place = f"-n {pod.metadata.namespace} {pod.metadata.name}"
    if any(reason in broken for reason in NO_IMAGE):
        return f"make its image available: kubectl describe pod {place}"
    if "CrashLoopBackOff" in broken:
        return f"without a driver it ends at once; see kubectl logs --previous {place}"
    return f"see kubectl describe pod {place}"


def unbound_because(pod: Pod) -> str:
    """What kube-scheduler says of a pod that it does not bind."""
    scheduled = pod.condition("PodScheduled")
    return "" if scheduled is None else scheduled.message or scheduled.reason


def is_for(pod: Pod, node: Node) -> bool:
    """Whether the DaemonSet controller created the pod for this Node, which its affinity names."""
    affinity = pod.spec.affinity.node_affinity.required if pod.spec.affinity is not None else None
    terms = affinity.node_selector_terms if affinity is not None else ()
    return any(node.name in one.values for term in terms for one in term.match_fields)


def pod_name(pod: Pod) -> PodName:
    """The name, namespace and UID of the pod."""
    return PodName(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
