"""The steps that delete a NodeClaim or an agent pool, which exist only with the answer of the gate.

The Event of a deletion states what the answer rests on.

Source: docs/reference/deletion-gate.md.
"""

from cloudprovider.interface import Instance
from controllers.gate.gate import Evidence, Go, may_delete
from provisioner.api.causes import CAUSES
from provisioner.api.nodeclaim import NodeClaim

from .steps import DeleteClaim, DeleteInstance, Event, Wait


def delete_claim(claim: NodeClaim, evidence: Evidence, message: str) -> DeleteClaim | Wait:
    """Delete the claim, if the gate permits it; otherwise why not, and when to ask again."""
    found = may_delete(evidence)
    if isinstance(found, Go):
        return DeleteClaim(claim=claim, go=found, event=_event(found, message))
    return Wait(after=found.seconds, why=found.why)


def delete_instance(instance: Instance, evidence: Evidence, message: str = "") -> DeleteInstance | Wait:
    """Delete the agent pool, as `delete_claim`; without a message there is no Event."""
    found = may_delete(evidence)
    if isinstance(found, Go):
        return DeleteInstance(instance=instance, go=found, event=_event(found, message) if message else None)
    return Wait(after=found.seconds, why=found.why)


def _event(found: Go, message: str) -> Event:
    """The Event of the cause, with what the gate's answer rests on, as the audit log has it."""
    row = CAUSES[found.cause]
    return Event(type=row.event_type, reason=row.event, message=f"{message}; gate: {found.why}")
