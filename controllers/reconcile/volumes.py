"""The volumes and devices of the pods that a scheduling decision is made for; without them nothing is read."""

from collections.abc import Callable, Iterable

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.device_claims import DeviceClaims
from controllers.model.results import KubeFailed, ReadDevices, ReadStorage
from controllers.model.steps import LookUpDevices, LookUpStorage
from controllers.model.storage import Storage
from controllers.provisioning.pods import CachedPod

log = structlog.get_logger("provisioner")


async def volumes_of(actuator: Actuator, demand: Callable[[], Iterable[CachedPod]]) -> Storage:
    """The volumes and claimed devices of all pods that `demand` returns when this ends; pods can be added meanwhile.

    A failed request concerns only pods with volumes, or with devices: the result has its error.
    """
    found = Storage()
    while True:
        pods = tuple(demand())
        requested = frozenset(name for pod in pods for name in pod.claims)
        templates = frozenset(one.template for pod in pods for one in pod.devices)
        if not requested <= found.requested:
            volumes = await _volumes(actuator, requested)
            found = msgspec.structs.replace(volumes, devices=found.devices)
        elif not templates <= found.devices.requested:
            found = msgspec.structs.replace(found, devices=await _devices(actuator, templates))
        else:
            return found


async def _volumes(actuator: Actuator, requested: frozenset[str]) -> Storage:
    result = await actuator.read(LookUpStorage(claims=requested))
    if isinstance(result, ReadStorage):
        return result.storage
    error = str(result.error) if isinstance(result, KubeFailed) else type(result).__name__
    log.warning("failed to read the volumes of pending pods", error=error)
    return Storage(requested=requested, error=error)


async def _devices(actuator: Actuator, templates: frozenset[str]) -> DeviceClaims:
    """`templates` has "" for pods that name their claims."""
    result = await actuator.read(LookUpDevices(templates=templates))
    if isinstance(result, ReadDevices):
        return result.devices
    error = str(result.error) if isinstance(result, KubeFailed) else type(result).__name__
    log.warning("failed to read the ResourceClaims of pending pods", error=error)
    return DeviceClaims(requested=templates, error=error)
