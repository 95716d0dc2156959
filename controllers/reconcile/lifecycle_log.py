"""The log lines of a NodeClaim's life: INFO for each step that matters, WARNING for what prevents the next one.

Messages and keys are Karpenter's where it has them. The lines of an agent pool's PUT and DELETE come from the provider,
which has their request ID; this module adds their context.

Source: docs/references/karpenter.md#process.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import structlog

from cloudprovider.interface import InstanceState
from controllers.model.facts import Facts
from controllers.model.results import Result, Wrote
from controllers.model.steps import (
    CloudWrite,
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    Event,
    PatchClaim,
    PatchStatus,
    ReleaseFinalizer,
    Write,
)
from provisioner.api import labels
from provisioner.api.conditions import (
    DRAINED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    READY,
    REGISTERED,
    VOLUMES_DETACHED,
)
from provisioner.api.meta import Condition
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import owner_of
from provisioner.api.time import format_duration

Fields = dict[str, object]
# In the order in which a claim reaches them.
REACHED = {
    LAUNCHED: "launched nodeclaim",
    REGISTERED: "registered nodeclaim",
    INITIALIZED: "initialized nodeclaim",
    READY: "nodeclaim is ready",
}
HINDERED = {
    LAUNCHED: "failed to launch nodeclaim",
    REGISTERED: "failed to register nodeclaim",
    INITIALIZED: "nodeclaim is not initialized",
    DRAINED: "failed to drain node",
    VOLUMES_DETACHED: "failed to detach volumes",
    INSTANCE_TERMINATING: "failed to terminate instance",
}

log = structlog.get_logger("lifecycle")


def write(f: Facts, step: Write, result: Result) -> None:
    """Log what a successful write to the cluster means for the claim; most writes mean nothing."""
    if not isinstance(result, Wrote):
        return
    match step:
        case PatchStatus(claim=claim, conditions=conditions, events=events):
            _log_status(f, step)
            _log_hindered(f, claim, conditions, events)
        case PatchClaim(claim=claim, events=events):
            _log_hindered(f, claim, claim.status.conditions, events)
        case ReleaseFinalizer(target=Node() as node) if node.deleting:
            log.info("deleted node", **_fields(f, node=node.name, since=node.metadata.deletion_timestamp))
        case ReleaseFinalizer(target=NodeClaim() as claim) if claim.deleting:
            log.info("deleted nodeclaim", **_fields(f, claim, since=claim.metadata.deletion_timestamp))
        case DeleteClaim(claim=claim, cause=cause):
            log.info("deleting nodeclaim", **_fields(f, claim), cause=cause)
        case DeleteNode(node=node, cause=cause) if cause != "requested":
            log.info("deleting node", **_fields(f, node=node.name), cause=cause)
        case _:
            return


def fields_of_cloud_write(f: Facts, step: CloudWrite) -> Fields:
    """The context of the provider's log line."""
    match step:
        case CreateInstance(claim=claim, offering=offering):
            fields = _fields(f, claim)
            if offering is not None:
                fields |= _instance_type(offering.size, offering.zone, offering.capacity_type)
            return fields
        case DeleteInstance(cause=cause):
            deleted = f.claim.metadata.deletion_timestamp if f.claim is not None else None
            return {**_fields(f, since=deleted), "cause": cause}


def _log_status(f: Facts, step: PatchStatus) -> None:
    claim, written = step.claim, {condition.type: condition for condition in step.conditions}
    for kind, message in REACHED.items():
        if claim.condition(kind, "True") is None and kind in written and written[kind].status == "True":
            node = step.fields.get("nodeName", claim.status.node_name)
            provider_id = step.fields.get("providerID", claim.status.provider_id)
            log.info(message, **_fields(f, claim, node=node), **{"provider-id": provider_id})


def _log_hindered(f: Facts, claim: NodeClaim, conditions: Iterable[Condition], events: Iterable[Event]) -> None:
    reasons = {condition.type: condition.reason for condition in conditions}
    reported = {event.reason: event.message for event in events if event.type == "Warning"}
    for kind, message in HINDERED.items():
        reason = reasons.get(kind, "")
        if reason in reported and not (kind == LAUNCHED and _refusal_logged(f, reason)):
            log.warning(message, **_fields(f, claim), code=_code(f), reason=reason, error=reported[reason])


def _refusal_logged(f: Facts, reason: str) -> bool:
    """Whether this is why the PUT was refused, which the provider has logged."""
    failed = f.instance is not None and f.instance.state is InstanceState.FAILED
    return not failed and f.create_failed is not None and f.create_failed.reason == reason


def _code(f: Facts) -> str:
    """Azure's code for the failure of the pool; "" if it has not failed."""
    return f.instance.failure.code if f.instance is not None and f.instance.failure is not None else ""


def _fields(
    f: Facts, claim: NodeClaim | None = None, *, node: str | None = None, since: datetime | None = None
) -> Fields:
    """Claim, pool, instance type, zone, capacity type, Node, owner and the time since `since`, or since the creation
    of the claim.
    """
    claim = claim or f.claim
    own = f.node
    fields: Fields = {"pool": f.key}
    if f.instance is not None:
        offering = f.instance.offering
        fields |= _instance_type(offering.size, offering.zone, offering.capacity_type)
    elif claim is not None:
        fields |= _labelled(claim.metadata.labels)
    name = node if node is not None else own.name if own is not None else claim.status.node_name if claim else ""
    if name:
        fields["Node"] = {"name": name}
    if claim is not None:
        began = since or claim.metadata.creation_timestamp
        fields |= {
            "NodeClaim": {"name": claim.name},
            "owner": owner_of(claim),
            "duration": format_duration((f.now - began).total_seconds()),
        }
    return fields


def _labelled(known: Mapping[str, str]) -> Fields:
    # The label is the region and the zone's number, or a fault domain if the machine is regional.
    _, dash, zone = known.get(labels.ZONE, "").rpartition("-")
    return _instance_type(
        known.get(labels.INSTANCE_TYPE, ""), zone if dash else "", known.get(labels.CAPACITY_TYPE, "")
    )


def _instance_type(size: str, zone: str, capacity_type: str) -> Fields:
    return {"instance-type": size, "zone": zone, "capacity-type": capacity_type}
