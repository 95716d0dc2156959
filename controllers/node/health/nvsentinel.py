"""Requests of NVSentinel for the maintenance of a machine: TerminateNodes and RebootNodes. Pure.

A TerminateNode of one of our Nodes deletes its NodeClaim once. The UID of that claim is written on the object before,
so that neither a restart nor another machine with the same Node name leads to a second deletion. It is complete when
the claim is gone, whose finalizer stays until its pool is proven gone. A Node of no claim is left to others, and a
recorded claim that is not the one of the request's Node is no record.

NVSentinel creates one object for each health event and does not repeat it: requests beyond the limit of the circuit
breaker wait, as Unknown, and are carried out one after the other. An old one, which nobody has answered, is refused:
its machine has served since. One that is older than its claim waits for the Node.

Source: docs/references/kubernetes.md#nvsentinel.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from controllers.model.ownership import belongs, managed
from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.objects import EVENT_TTL_SECONDS

Json = Mapping[str, Any]

# The condition that records the claim; its message is read back.
RECORD = "gpu-provisioner.sh/NodeClaim"
# Names as the API server takes them, and no other: they become parts of requests.
_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_NODE = re.compile(_NAME)
_RECORDED = re.compile(rf"NodeClaim ({_NAME}) with UID ([A-Za-z0-9-]{{1,64}}) ")
# After an hour, a request that was never seen is about a machine of then; one that waits for the limit is seen.
UNSEEN_SECONDS = 3600.0
WAITING_SECONDS = 24 * 3600.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`complete`: the type of the condition that NVSentinel waits for."""

    kind: str
    meta: ObjectMeta
    node_name: str
    conditions: tuple[Json, ...]
    complete: str
    reboots: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The condition `complete`, which ends the request. `status` False: NVSentinel may create another one."""

    status: str
    reason: str
    message: str


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete this claim. `recorded`: whether the request has its UID already."""

    claim: NodeClaim
    recorded: bool


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Write the UID of this claim, which is being deleted already, on the request."""

    claim: NodeClaim


class Prove(msgspec.Struct, frozen=True, kw_only=True):
    """Read whether the claim is gone: the request is complete then."""

    name: str
    uid: str


class NotManaged(msgspec.Struct, frozen=True, kw_only=True):
    """Only an Event says so."""

    event: Event


Decision = Answer | Delete | Record | Prove | NotManaged | None


def claim_of(name: str, node: Node | None, claims: Iterable[NodeClaim]) -> NodeClaim | None:
    """Our claim of the Node of this name. `node` None: it does not exist, and the claim's status has its name."""
    found = [
        claim
        for claim in claims
        if managed(claim) and (belongs(node, claim) if node is not None else claim.status.node_name == name)
    ]
    return found[0] if len(found) == 1 else None


def recorded(request: Request) -> Prove | None:
    """The claim that the request was found to be about."""
    text = next((str(one.get("message")) for one in request.conditions if one.get("type") == RECORD), "")
    found = _RECORDED.match(text)
    return Prove(name=found[1], uid=found[2]) if found is not None else None


def record(claim: NodeClaim) -> str:
    """The message by which a request has its claim."""
    return f"NodeClaim {claim.name} with UID {claim.uid} is deleted for this request"


def decide(
    request: Request, node: Node | None, claim: NodeClaim | None, known: NodeClaim | None, now: datetime
) -> Decision:
    """What is to be done now; None: nothing. `claim`: of the Node; `known`: the recorded one, while it exists."""
    if request.meta.deleting or _is_answered(request):
        return None
    if _NODE.fullmatch(request.node_name) is None:
        message = "spec.nodeName is empty or no name of a Node: set it to the name of a Node"
        return Answer(status="False", reason="InvalidNodeName", message=message)
    about = recorded(request)
    if about is not None and not request.reboots:
        if known is None:
            return about
        if known.metadata.deleting:
            return None
        # Others can write the status of the request, too: the record alone deletes nothing.
        if claim is not None and claim.uid == known.uid:
            return Delete(claim=known, recorded=True)
    if claim is None:
        message = f'"{request.node_name}" is not a Node of a NodeClaim of this controller: nothing is done'
        event = Event(type="Normal", reason=reasons.NODE_NOT_MANAGED, message=message, repeat_seconds=EVENT_TTL_SECONDS)
        return NotManaged(event=event)
    if request.reboots:
        message = (
            f"AKS has no call to restart the one machine of NodeClaim {claim.name}: create a TerminateNode to have it"
            " replaced"
        )
        return Answer(status="False", reason="RebootNotSupported", message=message)
    if _is_newer(claim.metadata, request):
        # AKS uses the name of a Node again. Only the Node shows whether the request is about a former machine.
        if node is None:
            return _too_old(request, claim, now)
        if _is_newer(node.metadata, request):
            message = f"the machine is gone: NodeClaim {claim.name} and its Node are newer than this request"
            return Answer(status="True", reason="NodeReplaced", message=message)
    if claim.deleting:
        return Record(claim=claim)
    return _too_old(request, claim, now) or Delete(claim=claim, recorded=False)


def gone(claim: Prove) -> Answer:
    """The answer once a fresh read has shown that the claim does not exist."""
    message = f"NodeClaim {claim.name} with UID {claim.uid}, its Node and its agent pool are gone"
    return Answer(status="True", reason="NodeClaimGone", message=message)


def waiting(request: Request, claim: NodeClaim) -> Answer | None:
    """The condition of a request that exceeds the limit of the circuit breaker now; None if the request has it."""
    if _waits(request):
        return None
    message = (
        "waiting: requested removals, with others of the last 10 minutes, reach the limit of the circuit breaker; it is"
        f" carried out as soon as that permits it. To have it at once, delete NodeClaim {claim.name}"
    )
    return Answer(status="Unknown", reason=reasons.REMOVAL_RESTRICTED, message=message)


def _too_old(request: Request, claim: NodeClaim, now: datetime) -> Answer | None:
    """The refusal of a request whose cause may be over; None if it is recent, or has waited for the limit."""
    age = (now - request.meta.creation_timestamp).total_seconds()
    if age <= (WAITING_SECONDS if _waits(request) else UNSEEN_SECONDS):
        return None
    message = (
        f"not deleted: the request is {age / 3600:.0f} h old, and its cause may be over; create the object again if the"
        f" machine is still faulty, or delete NodeClaim {claim.name}"
    )
    return Answer(status="False", reason="RequestTooOld", message=message)


def _waits(request: Request) -> bool:
    """Whether the request states that it waits for the limit."""
    found = next((one for one in request.conditions if one.get("type") == request.complete), {})
    return (found.get("status"), found.get("reason")) == ("Unknown", reasons.REMOVAL_RESTRICTED)


def deletion_message(request: Request) -> str:
    """What the Event of the claim that is deleted states."""
    return f"{request.kind} {request.meta.name} requests another machine for Node {request.node_name}"


def with_condition(request: Request, kind: str, answer: Answer, now: str) -> list[Json]:
    """The conditions of the request, with this one."""
    new = {
        "type": kind,
        "status": answer.status,
        "reason": answer.reason,
        "message": answer.message,
        "lastTransitionTime": now,
        "observedGeneration": request.meta.generation,
    }
    return [*(one for one in request.conditions if one.get("type") != kind), new]


def _is_answered(request: Request) -> bool:
    return any(one.get("type") == request.complete and one.get("status") != "Unknown" for one in request.conditions)


def _is_newer(meta: ObjectMeta, request: Request) -> bool:
    return meta.creation_timestamp > request.meta.creation_timestamp
