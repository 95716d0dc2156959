"""The steps that delete a NodeClaim or an agent pool, which exist only with the answer of the gate.

The Event of a deletion states what the answer rests on.

Source: docs/reference/deletion-gate.md.
"""

import msgspec

from cloudprovider.interface import Instance
from controllers.gate.gate import Evidence, Go, may_delete
from provisioner.api.nodeclaim import NodeClaim

from .steps import DeleteClaim, DeleteInstance, Event, Wait


def delete_claim(claim: NodeClaim, evidence: Evidence, event: Event) -> DeleteClaim | Wait:
    """Delete the claim, if the gate permits it; otherwise why not, and when to ask again."""
    found = may_delete(evidence)
    if isinstance(found, Go):
        return DeleteClaim(claim=claim, go=found, event=_with_answer(event, found))
    return Wait(after=found.seconds, why=found.why)


def delete_instance(instance: Instance, evidence: Evidence, event: Event | None = None) -> DeleteInstance | Wait:
    """Delete the agent pool, if the gate permits it; otherwise why not, and when to ask again."""
    found = may_delete(evidence)
    if isinstance(found, Go):
        answered = _with_answer(event, found) if event is not None else None
        return DeleteInstance(instance=instance, go=found, event=answered)
    return Wait(after=found.seconds, why=found.why)


def _with_answer(event: Event, found: Go) -> Event:
    """The Event with what the gate's answer rests on, as the audit log has it."""
    return msgspec.structs.replace(event, message=f"{event.message}; gate: {found.why}")
