"""Which pods request GPUs.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/.
"""

from provisioner.vendors import is_gpu

from .meta import ObjectMeta, Struct
from .schedulable import SchedulablePodSpec
from .workload import ContainerStatus

ENDED = ("Succeeded", "Failed")
# Waiting reasons of a container that has failed and is started again.
RESTARTED = frozenset({"CrashLoopBackOff", "RunContainerError"})


class RunningPodSpec(SchedulablePodSpec, frozen=True, kw_only=True):
    termination_grace_period_seconds: int | None = None


class RunningPodStatus(Struct, frozen=True, kw_only=True):
    phase: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()


class RunningPod(Struct, frozen=True, kw_only=True):
    """A pod with the fields that tell whether it uses GPUs now. `with_gpus` is no field of the API: whether it does."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: RunningPodSpec = RunningPodSpec()
    status: RunningPodStatus = RunningPodStatus()
    with_gpus: bool = False


def has_ended(pod: RunningPod) -> bool:
    """Whether no container of the pod runs again."""
    return pod.status.phase in ENDED


def uses_gpus(pod: RunningPod) -> bool:
    """Whether a pod with GPUs runs, or is about to: one whose containers all failed and are restarted does not."""
    states = [one.state for one in pod.status.container_statuses]
    failed = [
        one.terminated is not None or (one.waiting is not None and one.waiting.reason in RESTARTED) for one in states
    ]
    return not has_ended(pod) and requests_gpus(pod.spec) and not (failed and all(failed))


def requests_gpus(spec: SchedulablePodSpec) -> bool:
    """Whether a pod requests GPUs, or devices by a ResourceClaim."""
    if spec.resource_claims:
        return True
    each = [one.resources for one in (*spec.init_containers, *spec.containers)]
    return any(
        is_gpu(name) and str(amount) != "0"
        for one in (*each, *([spec.resources] if spec.resources is not None else ()))
        for name, amount in {**one.limits, **one.requests}.items()
    )
