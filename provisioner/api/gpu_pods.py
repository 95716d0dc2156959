"""Which resources are GPUs, and which pods request them.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/.
"""

from .schedulable import SchedulablePodSpec

GPUS = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu")


def is_gpu(resource: str) -> bool:
    """Whether a resource of Kubernetes is a GPU or a part of one."""
    return resource.startswith(GPUS)


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
