"""Deletes a NodeClaim of a NodePool, if the gate permits it; its machine is then removed like any other.

Before another machine is bought in its place, a dry run asks the API server whether it would accept the deletion.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run.
"""

import enum

import structlog

from controllers.actuator.actuator import Actuator
from controllers.gate.gate import Evidence
from controllers.model import deletion
from controllers.model.steps import DeleteClaim, Event
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.kube import KubeError

# The API server's words for a webhook with side effects, which it does not call in a dry run.
NO_DRY_RUN = "does not support dry run"
BAD_REQUEST, UNAUTHORIZED = 400, 401

log = structlog.get_logger("provisioner")


class Deletion(enum.Enum):
    """What became of a request. CHANGED: the NodeClaim is gone or changed.

    KEPT: the gate does not permit the deletion. REFUSED: the API server does not, as by an admission policy.
    """

    DELETED = enum.auto()
    CHANGED = enum.auto()
    KEPT = enum.auto()
    REFUSED = enum.auto()


async def try_deletion(actuator: Actuator, claim: NodeClaim) -> Deletion:
    """What would become of the request now: DELETED, CHANGED or REFUSED, with an Event as for the request itself.

    A webhook without dry runs says nothing about the deletion. A webhook chooses the code of its refusal, so that each
    one counts, 404 and 409 if the NodeClaim is still as it was. Raises KubeError for a request without an answer.
    """
    try:
        await actuator.reads.try_deletion(claim)
    except KubeError as error:
        if error.status == BAD_REQUEST and NO_DRY_RUN in error.message:
            return Deletion.DELETED
        if not error.status or error.status == UNAUTHORIZED:
            raise
        if (error.not_found or error.conflict) and await _is_changed(actuator, claim):
            return Deletion.CHANGED
        return _refused(actuator, claim, error)
    return Deletion.DELETED


async def _is_changed(actuator: Actuator, claim: NodeClaim) -> bool:
    """Whether the NodeClaim is gone, being deleted, or another one. Raises KubeError."""
    read = await actuator.reads.claim(claim.name)
    return read is None or read.uid != claim.uid or read.deleting


async def delete_claim(actuator: Actuator, claim: NodeClaim, evidence: Evidence, message: str) -> Deletion:
    """Send the request; an Event states why the API server refuses it.

    Raises LeaseExpires, and KubeError for one that can succeed when it is repeated.
    """
    step = deletion.delete_claim(claim, evidence, message)
    if not isinstance(step, DeleteClaim):
        log.info("nodeclaim is kept", NodeClaim={"name": claim.name}, cause=evidence.cause, why=step.why)
        return Deletion.KEPT
    try:
        await actuator.write(step, None)
    except KubeError as error:
        if not (error.refused or error.not_found or error.conflict):
            raise
        # A webhook may deny it with the codes of a conflict and of an absent object too, and would do so each second.
        if not error.refused and await _is_changed(actuator, claim):
            return Deletion.CHANGED
        return _refused(actuator, claim, error)
    log.info("deleting nodeclaim", NodeClaim={"name": claim.name}, cause=step.cause)
    return Deletion.DELETED


def _refused(actuator: Actuator, claim: NodeClaim, error: KubeError) -> Deletion:
    log.warning("failed to delete nodeclaim", NodeClaim={"name": claim.name}, error=str(error))
    refusal = f"failed to delete: {error}"
    actuator.record_event(claim, Event(type="Warning", reason=reasons.DISRUPTION_BLOCKED, message=refusal))
    return Deletion.REFUSED
