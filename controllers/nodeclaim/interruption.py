"""Interruption: evicted spot VMs, and notices of evictions.

A claim whose spot VM was evicted gets the reason SpotEvicted and is deleted with its pool; its owner creates another.
The proof of an eviction is the pool: created with one machine, it counts none. Signals on the Node (a scheduled
preemption, the taint of a VM that was shut down) only set the reason while the Node is not Ready.

A notice that Azure is about to evict the VM deletes the claim while the Node is Ready: its pods are drained until the
time of the notice and get other machines meanwhile. A deletion cannot be taken back, so that the claim goes although
Azure may then keep the VM. Only a message that states an eviction is a notice: the same condition recommends to move.

Source: docs/references/agent-pools.md#machine-interruptions-and-auto-repair,
docs/references/agent-pools.md#labels-and-taints, docs/references/agent-pools.md#notices-of-spot-evictions.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from cloudprovider.interface import SPOT, InstanceState
from controllers.gate.gate import Evidence
from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.deletion import delete_claim
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by, managed
from controllers.model.steps import LookUpClaim, LookUpNodes, PatchClaim, Step, Wait
from controllers.node.termination.grace_period import annotated_deadline
from provisioner.api import labels, reasons
from provisioner.api.conditions import Status
from provisioner.api.node import Node, NodeCondition
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import parse_duration, rfc3339, shifted

# Signals of an eviction: the type of a Node's condition, and a text that its reason or message contains.
SIGNALS = (("PreemptionScheduled", ""), ("VMEventScheduled", "preempt"))
# Conditions of AKS's node problem detector with the message of a scheduled event.
ANNOUNCING = ("PreemptionScheduled", "VMEventScheduled")
# Azure announces an eviction at least so long before.
LEAST_NOTICE_SECONDS = 30.0
# A VM that still runs so long after the time of its notice is not evicted.
OUTLIVED_SECONDS = 600.0

_EVENT = re.compile(r"Preempt (Scheduled|Started)(?:: *([^.]*))?(?:\.|$)")


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: not before this time the VM is evicted. `condition`: the type of the Node's condition."""

    at: datetime
    condition: str


def notice_on(node: Node, now: datetime) -> Notice | None:
    """The notice that the Node's VM is about to be evicted, the earliest of several; None without one."""
    found = (_notice(one) for one in node.status.conditions if one.type in ANNOUNCING and one.status == "True")
    current = (one for one in found if one is not None and now <= shifted(one.at, OUTLIVED_SECONDS))
    return min(current, key=lambda one: one.at, default=None)


def _notice(condition: NodeCondition) -> Notice | None:
    """What the condition announces. Without a time in it, the time counts from the condition's transition."""
    event, since = _EVENT.match(" ".join(condition.message.split())), condition.last_transition_time
    if event is None:
        return None
    at = None if since is None else since if event[1] == "Started" else shifted(since, LEAST_NOTICE_SECONDS)
    if event[1] == "Scheduled":
        at = _http_date(event[2] or "") or at
    return None if at is None else Notice(at=at, condition=condition.type)


def _http_date(text: str) -> datetime | None:
    """A time such as `Mon, 19 Sep 2016 18:29:47 GMT`; None if it is none, or states no zone."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return None if found.tzinfo is None else found.astimezone(UTC)


def step(f: Facts) -> Step | None:
    """The next step of a claim whose spot VM is about to be evicted; None if it is not, or that is not confirmed.

    The deadline of the drain is written first. An earlier one, of the claim or of another client, is kept.
    """
    claim = f.claim
    notice = None if claim is None else _announced(f, claim, f.nodes)
    if claim is None or notice is None:
        return None
    if f.claim_read_age > f.policy.fresh_seconds:
        return LookUpClaim(name=claim.name)
    if f.nodes_read_age > f.policy.fresh_seconds:
        return LookUpNodes(pool=f.key)
    read = f.claim_read
    if read is None or read.uid != claim.uid or read.deleting or _announced(f, claim, f.nodes_read) is None:
        return None
    longer = all(_is_later(one, notice.at) for one in (annotated_deadline(claim), _own_deadline(f, claim)))
    if longer and "PatchClaim" not in f.refused:
        return PatchClaim(claim=claim, annotations={labels.TERMINATION_TIMESTAMP: rfc3339(notice.at)})
    evidence = Evidence(cause="spot-evicted", uid=claim.uid, ours=managed(claim), seen=True)
    text = f"Deleted NodeClaim: Azure evicts the spot VM of agent pool {f.key} at {clock_text(notice.at)}"
    chosen = delete_claim(claim, evidence, f"{text} ({notice.condition})")
    return None if isinstance(chosen, Wait) else chosen


def _announced(f: Facts, claim: NodeClaim, nodes: Iterable[Node]) -> Notice | None:
    """The first notice of this claim's spot VMs, if each of its Nodes has one: its pool goes with all of them."""
    instance = f.instance
    if claim.deleting or claim.metadata.unreadable or instance is None or not held_by(instance, claim):
        return None
    if instance.offering.capacity_type != SPOT or instance.state is InstanceState.DELETING:
        return None
    found = [notice_on(node, f.now) for node in nodes if belongs(node, claim) and not node.deleting]
    return None if None in found else min(_known(found), key=lambda one: one.at, default=None)


def _known(found: Iterable[Notice | None]) -> Iterator[Notice]:
    return (one for one in found if one is not None)


def _own_deadline(f: Facts, claim: NodeClaim) -> datetime | None:
    """By when the claim's termination grace period ends if the claim is deleted now; None without one."""
    period = parse_duration(claim.spec.termination_grace_period or "")
    return None if period is None else shifted(f.now, period)


def _is_later(deadline: datetime | None, at: datetime) -> bool:
    return deadline is None or deadline > at


def is_evicted(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's spot pool is running, not being changed by AKS, and has no machine."""
    instance = f.instance
    if instance is None or not held_by(instance, claim) or instance.offering.capacity_type != SPOT:
        return False
    return instance.state is InstanceState.RUNNING and instance.count == 0 and not instance.busy


def eviction_signal(node: Node) -> str:
    """The signal of an eviction on this Node; "" without one."""
    if any(taint.key == labels.SHUTDOWN_TAINT for taint in node.spec.taints):
        return labels.SHUTDOWN_TAINT
    for condition in node.status.conditions:
        details = f"{condition.reason} {condition.message}".lower()
        if condition.status == "True" and any(condition.type == kind and text in details for kind, text in SIGNALS):
            return f"{condition.type} {condition.reason}".rstrip()
    return ""


def condition(f: Facts, claim: NodeClaim, status: Status) -> ConditionUpdate | None:
    """The Initialized condition of a claim whose spot VM was evicted; None if it was not."""
    capacity_type = (
        f.instance.offering.capacity_type if f.instance is not None else claim.metadata.labels.get(labels.CAPACITY_TYPE)
    )
    if capacity_type != SPOT:
        return None
    unready = (node for node in f.nodes if belongs(node, claim) and (node.deleting or not node.ready))
    signal = next(filter(None, map(eviction_signal, unready)), "")
    if not signal and not is_evicted(f, claim):
        return None
    current = next((c.message for c in claim.status.conditions if c.reason == reasons.SPOT_EVICTED), "")
    message = (
        f"spot VM of agent pool {f.key} was evicted, observed at {clock_text(f.now)}"
        f" ({signal or 'the pool has no machine'}); the owner can create a new claim that prefers on-demand"
    )
    return ConditionUpdate(status=status, reason=reasons.SPOT_EVICTED, message=current or message, warning=True)
