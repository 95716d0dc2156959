"""Whether a kubelet admits a pod that requests devices, and why not. Pure.

The device manager refuses pods of a resource that it knows and has too few healthy devices of. It forgets the resource
of a plugin that has not come back for 5 min; then the Node's allocatable decides, which is 0.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .device_plugin import Devices

Json = dict[str, Any]
UNEXPECTED = "UnexpectedAdmissionError"


class Refusal(NamedTuple):
    """The `reason` and `message` in the status of the failed pod."""

    reason: str
    message: str


def refusal(pod: Json, devices: Devices, others: Iterable[Json]) -> Refusal | None:
    """Why the kubelet refuses the pod; `others`: the pods that it runs."""
    requests = _requests(pod, devices.resource)
    if not requests or devices.state == "absent":
        return None
    used = sum(sum(_requests(other, devices.resource)) for other in others)
    if not devices.registered and not used:
        short = f"requested: {sum(requests)}, used: 0, capacity: 0"
        return Refusal(
            f"OutOf{devices.resource}",
            f"Pod was rejected: Node didn't have enough resource: {devices.resource}, {short}",
        )
    cause = _unallocated(requests, devices, used)
    message = f"Pod was rejected: Allocate failed due to {cause}, which is unexpected"
    return Refusal(UNEXPECTED, message) if cause else None


def _unallocated(requests: list[int], devices: Devices, used: int) -> str:
    if not devices.registered:
        return f"cannot allocate unregistered device {devices.resource}"
    if not devices.healthy:
        return f"no healthy devices present; cannot allocate unhealthy devices {devices.resource}"
    free = devices.healthy - used
    for wanted in requests:
        if wanted > free:
            unavailable = f"requested number of devices unavailable for {devices.resource}"
            return f"{unavailable}. Requested: {wanted}, Available: {max(0, free)}"
        free -= wanted
    return ""


def _requests(pod: Json, resource: str) -> list[int]:
    """The devices that each container requests; extended resources are whole numbers."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    limits = ((container.get("resources") or {}).get("limits") or {} for container in containers)
    return [int(found[resource]) for found in limits if int(found.get(resource) or 0)]
