"""The volumes and devices of the pods that a scheduling decision is made for; without them nothing is read.

The number of reads is bounded, however many pods come meanwhile: those that come too late wait for the next decision.
"""

from collections.abc import Callable, Iterable

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.storage import DeviceClaims, Storage
from controllers.provisioning.extended_resources import may_be_devices
from controllers.provisioning.pods import CachedPod
from provisioner.runtime.kube_errors import KubeError

# Reads of one decision, of volumes or of devices: the second one is for pods that came during the first.
READS_MOST = 3

log = structlog.get_logger("provisioner")


async def volumes_of(actuator: Actuator, demand: Callable[[], Iterable[CachedPod]], *, of_drivers: bool) -> Storage:
    """The volumes and claimed devices of the pods that `demand` returns; `cluster.is_read` shows which are included.

    `of_drivers`: there are machines whose GPUs a DRA driver publishes; pods can get these as an extended resource. A
    failed request concerns only the pods whose volumes, or devices, it would have read: the result has its error.
    """
    found = Storage()
    for _ in range(READS_MOST):
        pods = tuple(demand())
        requested = frozenset(name for pod in pods for name in pod.claims)
        templates = frozenset(one.template for pod in pods for one in pod.devices)
        if of_drivers and any(may_be_devices(pod.constraints.requests) for pod in pods):
            templates |= {""}
        if not requested <= found.requested:
            volumes = await _volumes(actuator, requested)
            found = msgspec.structs.replace(volumes, devices=found.devices)
        elif not templates <= found.devices.requested:
            found = msgspec.structs.replace(found, devices=await _devices(actuator, templates))
        else:
            break
    return found


async def _volumes(actuator: Actuator, requested: frozenset[str]) -> Storage:
    try:
        storage = await actuator.reads.storage(requested)
    except KubeError as error:
        return Storage(requested=requested, unread=dict.fromkeys(requested, str(error)))
    if unread := storage.unread:
        name = min(unread)
        log.warning("failed to read the volumes of pending pods", claims=len(unread), claim=name, error=unread[name])
    return storage


async def _devices(actuator: Actuator, templates: frozenset[str]) -> DeviceClaims:
    """`templates` has "" for pods that name their claims, or none."""
    try:
        return await actuator.reads.devices(templates)
    except KubeError as error:
        log.warning("failed to read the ResourceClaims of pending pods", error=str(error))
        return DeviceClaims(requested=templates, error=str(error))
