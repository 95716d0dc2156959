"""Deletes a NodeClaim of a NodePool; its machine is then removed like any other."""

import enum

import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.results import Fenced, KubeFailed
from controllers.model.steps import DeleteClaim

log = structlog.get_logger("provisioner")


class Deletion(enum.Enum):
    """What became of a request. CHANGED: the NodeClaim is gone or changed. FENCED: this process may not write."""

    DELETED = enum.auto()
    CHANGED = enum.auto()
    FENCED = enum.auto()


async def delete_claim(actuator: Actuator, step: DeleteClaim) -> Deletion:
    """Send the request. Raises KubeError for one that can succeed when it is repeated."""
    match await actuator.write(step, None):
        case KubeFailed(error=error) if not (error.not_found or error.conflict):
            raise error
        case KubeFailed():
            return Deletion.CHANGED
        case Fenced():
            return Deletion.FENCED
    log.info("deleting nodeclaim", NodeClaim={"name": step.claim.name}, cause=step.cause)
    return Deletion.DELETED
