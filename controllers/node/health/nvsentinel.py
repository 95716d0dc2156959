"""Requests of NVSentinel for the maintenance of a machine: TerminateNodes and RebootNodes. Pure.

A TerminateNode of one of our Nodes deletes its NodeClaim once. The UID of that claim is written on the object before,
so that neither a restart nor another machine with the same Node name leads to a second deletion. It is complete when
the claim is gone, whose finalizer stays until its pool is proven gone. A Node of no claim is left to others.

Source: docs/references/kubernetes.md#nvsentinel.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controllers.model.ownership import belongs, managed
from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

Json = Mapping[str, Any]

# The condition that records the claim; its message is read back.
RECORD = "gpu-provisioner.sh/NodeClaim"
_RECORDED = re.compile(r"NodeClaim (\S+) with UID (\S+) ")


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


def decide(request: Request, node: Node | None, claim: NodeClaim | None, known: NodeClaim | None) -> Decision:
    """What is to be done now; None: nothing. `claim`: of the Node; `known`: the recorded one, while it exists."""
    if request.meta.deleting or _is_answered(request):
        return None
    if not request.node_name:
        message = "spec.nodeName is empty: set it to the name of a Node"
        return Answer(status="False", reason="InvalidNodeName", message=message)
    about = recorded(request)
    if about is not None and not request.reboots:
        if known is None:
            return about
        return None if known.metadata.deleting else Delete(claim=known, recorded=True)
    if claim is None:
        message = f'"{request.node_name}" is not a Node of a NodeClaim of this controller: nothing is done'
        return NotManaged(event=Event(type="Normal", reason=reasons.NODE_NOT_MANAGED, message=message))
    if request.reboots:
        message = (
            f"AKS has no call to restart the one machine of NodeClaim {claim.name}: create a TerminateNode to have it"
            " replaced"
        )
        return Answer(status="False", reason="RebootNotSupported", message=message)
    if node is not None and _is_newer(node.metadata, request) and _is_newer(claim.metadata, request):
        message = f"the machine is gone: NodeClaim {claim.name} and its Node are newer than this request"
        return Answer(status="True", reason="NodeReplaced", message=message)
    return Record(claim=claim) if claim.deleting else Delete(claim=claim, recorded=False)


def gone(claim: Prove) -> Answer:
    """The answer once a fresh read has shown that the claim does not exist."""
    message = f"NodeClaim {claim.name} with UID {claim.uid}, its Node and its agent pool are gone"
    return Answer(status="True", reason="NodeClaimGone", message=message)


def restricted(claim: NodeClaim, requests: int) -> Answer:
    """The answer to each of so many requests that exceed the limit of the circuit breaker together."""
    message = (
        f"not deleted: {requests} requested removals, with others of the last 10 minutes, exceed the limit of the"
        f" circuit breaker; create the object again later, or delete NodeClaim {claim.name}"
    )
    return Answer(status="False", reason=reasons.REMOVAL_RESTRICTED, message=message)


def deletion_event(request: Request) -> Event:
    """The Event of the claim that is deleted."""
    message = f"{request.kind} {request.meta.name} requests another machine for Node {request.node_name}"
    return Event(type="Warning", reason=reasons.TERMINATE_NODE, message=message)


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
