"""Which pods request GPUs.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/.
"""

from provisioner.vendors import is_gpu

from .pod import Pod, PodSpec

# Waiting reasons of a container that has failed and is started again.
RESTARTED = frozenset({"CrashLoopBackOff", "RunContainerError"})


def uses_gpus(pod: Pod) -> bool:
    """Whether a pod with GPUs runs, or is about to: one whose containers all failed and are restarted does not."""
    states = [one.state for one in pod.status.container_statuses]
    failed = [
        one.terminated is not None or (one.waiting is not None and one.waiting.reason in RESTARTED) for one in states
    ]
    return not pod.ended and requests_gpus(pod.spec) and not (failed and all(failed))


def requests_gpus(spec: PodSpec) -> bool:
    """Whether a pod requests GPUs, or devices by a ResourceClaim."""
    if spec.resource_claims:
        return True
    each = [one.resources for one in (*spec.init_containers, *spec.containers)]
    return any(
        is_gpu(name) and str(amount) != "0"
        for one in (*each, *([spec.resources] if spec.resources is not None else ()))
        for name, amount in {**one.limits, **one.requests}.items()
    )
