"""The Events that belong to no write: what a removal or repair waits for, changed agent pools, invalid annotations.

Each states what lasts: the same is recorded once while the API server keeps it, and another message, such as that of a
drain, which changes with its pods, every two minutes.

Reasons and objects (Node, claim, Pod) are Karpenter's. Pure.

Source: docs/references/karpenter.md#events, docs/references/karpenter.md#pods.
"""

import msgspec

from cloudprovider.interface import Instance
from controllers.garbagecollection import garbage
from controllers.model.facts import Facts
from controllers.model.ownership import holds_finalizer
from controllers.model.steps import Event
from controllers.node.health import admission_errors, repair
from controllers.node.termination import grace_period
from controllers.node.termination.conditions import attached_volumes, blocking_pods
from controllers.node.termination.drain import waiting_pods
from controllers.node.termination.pod_predicates import has_invalid_do_not_disrupt
from controllers.nodeclaim import consistency
from controllers.nodeclaim.lifecycle import dra
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.text import quoted
from provisioner.runtime.objects import EVENT_TTL_SECONDS

APART_SECONDS = 120.0


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """An Event and its object."""

    about: NodeClaim | Node | Pod | Instance
    event: Event


def notices(f: Facts) -> tuple[Notice, ...]:
    """The Events that apply now, repeated ones included."""
    claim, found = f.claim, list[Notice]()
    by = grace_period.deadline(claim) if claim is not None and claim.deleting else None
    found += [_unreadable(about) for about in f.claims if about.metadata.unreadable]
    found += [_unreadable(about) for about in f.nodes if about.metadata.unreadable]
    draining = [node for node in f.nodes if holds_finalizer(node) and f.drain_of(node).known]
    for node in draining:
        found += _of_node(f, node)
        if by is not None and waiting_pods(f, node):
            found += [Notice(about=node, event=grace_period.expiring_event(by))]
            found += [Notice(about=claim, event=grace_period.expiring_event(by))] if claim is not None else []
    if draining and claim is not None and grace_period.has_invalid_deadline(claim):
        message = f"{labels.TERMINATION_TIMESTAMP} is not a timestamp such as 2006-01-02T15:04:05Z; ignored"
        found.append(_warning(claim, reasons.INVALID_TERMINATION_TIMESTAMP, message))
    if claim is not None and not claim.deleting and (message := consistency.changes(f, claim)):
        found.append(_warning(claim, reasons.POOL_CHANGED, message))
    if claim is not None and (message := repair.blocked(f)):
        found.append(_warning(claim, reasons.NODE_REPAIR_BLOCKED, f"repair of the Node is delayed: {message}"))
    machine = f.node
    if claim is not None and machine is not None and (message := dra.has_two_owners(f, machine)):
        found.append(_warning(claim, reasons.TWO_GPU_OWNERS, message))
    if claim is not None and (message := repair.dry_run(f)):
        found.append(_warning(claim, reasons.NODE_REPAIR_DRY_RUN, message))
    if claim is not None and machine is not None and f.workloads is not None:
        event = admission_errors.event_of(admission_errors.admission_errors(f.workloads.pods))
        found += [Notice(about=about, event=event) for about in (claim, machine) if event is not None]
    restricted = f.claim or f.instance or next(iter(f.nodes), None)
    if restricted is not None and (message := garbage.needs_confirmation(f)):
        found.append(_warning(restricted, reasons.REMOVAL_RESTRICTED, message))
    return tuple(Notice(about=one.about, event=_lasting(one.event)) for one in found)


def _lasting(event: Event) -> Event:
    apart = EVENT_TTL_SECONDS if event.reason == reasons.REMOVAL_RESTRICTED else APART_SECONDS
    return msgspec.structs.replace(event, repeat_seconds=EVENT_TTL_SECONDS, apart_seconds=apart)


def _of_node(f: Facts, node: Node) -> list[Notice]:
    found = list[Notice]()
    if message := blocking_pods(f, node):
        found.append(_warning(node, reasons.FAILED_DRAINING, f"Failed to drain node, waiting for pods: {message}"))
    if not waiting_pods(f, node) and (message := attached_volumes(f, node)):
        found.append(
            Notice(about=node, event=Event(type="Normal", reason=reasons.AWAITING_VOLUME_DETACHMENT, message=message))
        )
    found += [_unreadable(pod) for pod in f.drain_of(node).pods if pod.metadata.unreadable]
    for pod in f.drain_of(node).pods:
        if has_invalid_do_not_disrupt(pod):
            value = quoted(pod.metadata.annotations[labels.DO_NOT_DISRUPT])
            message = f'{labels.DO_NOT_DISRUPT}={value} is neither "true" nor a duration such as 1h30m; ignored'
            found.append(_warning(pod, reasons.INVALID_DO_NOT_DISRUPT, message))
    return found


def _unreadable(about: NodeClaim | Node | Pod) -> Notice:
    fields = "; ".join(about.metadata.unreadable)
    return _warning(about, reasons.FIELD_UNREADABLE, f"fields that cannot be decoded are ignored: {fields}")


def _warning(about: NodeClaim | Node | Pod | Instance, reason: str, message: str) -> Notice:
    return Notice(about=about, event=Event(type="Warning", reason=reason, message=message))
