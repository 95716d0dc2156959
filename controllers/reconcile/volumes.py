"""The volumes of the pods that a scheduling decision is made for; without a pod that uses one nothing is read."""

from collections.abc import Callable, Iterable

import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.results import KubeFailed, ReadStorage
from controllers.model.steps import LookUpStorage
from controllers.model.storage import Storage
from controllers.provisioning.pods import CachedPod

log = structlog.get_logger("provisioner")


async def volumes_of(actuator: Actuator, demand: Callable[[], Iterable[CachedPod]]) -> Storage:
    """The volumes of all pods that `demand` returns when this ends; pods can be added while they are read.

    A failed request concerns only pods with volumes: the result has its error.
    """
    found = Storage()
    while not (requested := frozenset(name for pod in demand() for name in pod.claims)) <= found.requested:
        result = await actuator.read(LookUpStorage(claims=requested))
        if isinstance(result, KubeFailed):
            log.warning("failed to read the volumes of pending pods", error=str(result.error))
            return Storage(requested=requested, error=str(result.error))
        if isinstance(result, ReadStorage):
            found = result.storage
    return found
