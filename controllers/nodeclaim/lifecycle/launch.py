"""Launch: creation of a claim's agent pool, and the Launched condition.

A pool is created once, under a name derived from the claim, and never under a name in use. The condition names what
blocks the creation, since when, and the remedy. Launched becomes True when the pool is running or its Node exists, and
is reverted only if the pool fails before the claim was initialized.

Source: docs/references/karpenter.md#launch, docs/references/rules.md#ownership-marks,
docs/references/rules.md#every-state-has-a-deadline, docs/references/rules.md#unavailable-offerings,
docs/references/rules.md#limits-on-cost-and-privilege.
"""

from datetime import datetime

import msgspec

from cloudprovider.errors import NoCapacity
from cloudprovider.interface import Instance, InstanceState
from controllers.model.conditions import ConditionUpdate, clock_text, launched
from controllers.model.deadlines import watched
from controllers.model.facts import Facts
from controllers.model.ownership import Verdict, held_by, marked, verdict
from controllers.model.reported import Reported
from controllers.model.steps import CreateInstance, Event, LookUpClaim, LookUpPool, Step, Wait
from provisioner.api import labels, reasons
from provisioner.api.conditions import LAUNCHED, Status
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from . import launch_failure, limits, node_class, offerings

# Between two looks whether the prices are known: NodeOverlays are listed within seconds of the start.
PRICES_SECONDS = 5.0
USUAL_TIME = "AKS usually takes 3 to 8 min"
# Reasons of claims that wait for a user or a removal, not for capacity.
NOT_QUEUED = (reasons.LEFTOVER_NODE, reasons.POOL_DELETED, reasons.ADOPTION_REFUSED, *node_class.REASONS)


def accepted(claim: NodeClaim) -> bool:
    """Whether the claim's status says that AKS accepted its agent pool, which neither ran nor failed yet."""
    return any(
        c.type == LAUNCHED and c.status == "Unknown" and c.reason in (reasons.CREATING, reasons.POOL_DELETED)
        for c in claim.status.conditions
    )


def pool_missing(f: Facts, claim: NodeClaim) -> bool:
    """Whether the condition reports an accepted pool that neither ran nor failed, and no read shows that pool.

    False if the status cannot be written, because the condition is then outdated.
    """
    return accepted(claim) and f.instance is None and f.node is None and "PatchStatus" not in f.refused


def is_queued(claim: NodeClaim) -> bool:
    """Whether this claim has a position in the queue; claims that cannot be served now would block it.

    A claim whose pool may have been created stays in the queue: a stale list must not give its capacity to others.
    """
    if claim.metadata.unreadable:
        return False
    current = claim.condition(LAUNCHED)
    return current is None or (current.status == "Unknown" and current.reason not in NOT_QUEUED)


def step(f: Facts) -> Step | None:
    """Clean up a failed attempt, create the pool, or read it if the outcome of the last attempt is unknown."""
    claim = f.claim
    if claim is None:
        return None
    if f.instance is not None:
        return launch_failure.step(f, claim)
    if cleanup := launch_failure.step(f, claim):
        return cleanup
    if launched(claim) or pool_missing(f, claim) or f.node is not None:
        return None
    failed, unread = f.create_failed, f.read_failed
    unknown = failed is not None and failed.uncertain and f.pool_read_age > failed.age(f.loop_now)
    if unknown and (unread is None or unread.retry_in(f.loop_now) <= 0):
        return LookUpPool(name=f.key)
    if blocking_condition(f) is not None:
        return None
    if not f.ordered:
        return Wait(after=PRICES_SECONDS, why="waiting for the NodeOverlays, by whose prices offerings are ordered")
    unverified = _verify_claim(f, claim)
    if unverified is not None:
        return unverified
    offering = offerings.next_offering(f)
    message = offerings.attempt_message(f, offering) if offering is not None else ""
    event = Event(type="Normal", reason=reasons.TRYING_OFFERING, message=message) if message else None
    return CreateInstance(claim=claim, name=f.key, offering=offering, node_class=f.node_class, event=event)


def _verify_claim(f: Facts, claim: NodeClaim) -> Step | None:
    """Read the claim before a PUT: a stale cache may show a deleted claim, which must not get a second machine."""
    if f.claim_read_age > f.policy.fresh_seconds:
        return LookUpClaim(name=claim.name)
    if f.claim_read is None or f.claim_read.uid != claim.uid or f.claim_read.deleting:
        return Wait(after=f.policy.fresh_seconds, why="waiting for the cache to show the changed claim")
    return None


def launched_since(f: Facts, claim: NodeClaim) -> datetime | None:
    """When the claim was launched; now, if the condition is about to change; None if it is not launched."""
    current = claim.condition(LAUNCHED, "True")
    if current is not None:
        return current.last_transition_time
    running = f.instance is not None and f.instance.state is InstanceState.RUNNING and held_by(f.instance, claim)
    return f.now if running else None


def condition(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Launched condition; None if it is to stay as it is."""
    instance = f.instance
    if not launch_failure.failed_launch_remains(f, claim) and (launched(claim) or f.node is not None):
        return ConditionUpdate(status="True", reason=reasons.LAUNCHED)
    if pool_missing(f, claim):
        return _deleted_by_others(f, claim) if f.absence == "absent" else _lookup_failed(f)
    if instance is None or not held_by(instance, claim):
        blocked = blocking_condition(f)
        if blocked is None or _is_final(blocked):
            return blocked or offerings.last_failure(f)
        began = claim.metadata.creation_timestamp
        return watched(blocked, name="launch", since=began, now=f.now, limit_seconds=f.policy.launch_seconds)
    began = instance.put_time or claim.metadata.creation_timestamp
    match instance.state:
        case InstanceState.RUNNING:
            return ConditionUpdate(status="True", reason=reasons.LAUNCHED)
        case InstanceState.FAILED:
            return _failed(f, instance)
        case InstanceState.DELETING:
            return _keep_cause(claim) or _deleted_by_others(f, claim)
        case _:
            choice = offerings.fallback_message(f, instance)
            state = f"{instance.raw_state or 'Creating'} since {clock_text(began)}"
            message = "; ".join((state, *filter(None, (choice,)), USUAL_TIME))
            reports = Reported(first_choice=offerings.first_failed(f) if choice else "")
            creating = ConditionUpdate(status="Unknown", reason=reasons.CREATING, message=message, reports=reports)
            return watched(creating, name="creating", since=began, now=f.now, limit_seconds=f.policy.creating_seconds)


def _is_final(update: ConditionUpdate) -> bool:
    """Whether only a user can resolve this failure; it then has no deadline."""
    return update.status == "False" and update.recheck is None


def _failed(f: Facts, instance: Instance) -> ConditionUpdate:
    message = f"agent pool ended in {instance.raw_state}; see az aks nodepool show --name {instance.name}"
    found = ConditionUpdate(status="False", reason=reasons.CREATE_FAILED, message=message, warning=True)
    if instance.failure is not None:
        found = offerings.failed_condition(f, instance.failure)
    recheck = f.delete_failed.retry_in(f.loop_now) if f.delete_failed is not None else None
    return msgspec.structs.replace(found, recheck=recheck or None)


def _keep_cause(claim: NodeClaim) -> ConditionUpdate | None:
    """Keep the cause of a failure while the failed pool is being deleted."""
    current = claim.condition(LAUNCHED, "False")
    if current is None:
        return None
    return ConditionUpdate(status="False", reason=current.reason, message=current.message, warning=True, kept=True)


def _lookup_failed(f: Facts) -> ConditionUpdate | None:
    """The list no longer contains the pool, and reading it fails; it still counts as accepted."""
    unread = f.read_failed
    if unread is None or unread.retry_in(f.loop_now) <= 0:
        return None
    message = f"agent pool {f.key} is no longer listed, and reading it failed: {unread.message}"
    return ConditionUpdate(status="Unknown", reason=reasons.CREATING, message=message, warning=True)


def _deleted_by_others(f: Facts, claim: NodeClaim) -> ConditionUpdate:
    """A pool that never failed and that another client deleted: the claim is deleted as well."""
    current = claim.condition(LAUNCHED)
    kept = current.message if current is not None and current.reason == reasons.POOL_DELETED else ""
    message = (
        f"agent pool {f.key} was deleted by another client before it was running, observed at {clock_text(f.now)};"
        " this claim is deleted with it: create a new one if the machine is still needed"
    )
    return ConditionUpdate(status="Unknown", reason=reasons.POOL_DELETED, message=kept or message, warning=True)


def blocking_condition(f: Facts) -> ConditionUpdate | None:
    """The Launched condition of a claim whose pool cannot be created now; None if it can."""
    return own_blocking_condition(f) or offerings.blocking_condition(f) or limits.blocking_condition(f)


def own_blocking_condition(f: Facts) -> ConditionUpdate | None:
    """The same, offerings and limits aside."""
    claim = f.claim
    if claim is None:
        return None
    if f.adoption_refused:
        message = f"cannot adopt: {f.adoption_refused}; correct or remove the annotation {labels.ADOPT}"
        return ConditionUpdate(status="Unknown", reason=reasons.ADOPTION_REFUSED, message=message, warning=True)
    if f.instance is not None:
        return _name_taken(f, f.instance, claim)
    if launch_failure.remaining_nodes(f, claim):
        return _keep_cause(claim)
    if leftover := f.unrelated_nodes or (() if f.node is not None else f.nodes):
        return _leftover_node(leftover)
    if waiting := node_class.blocking_condition(f, claim):
        return waiting
    if f.cluster is not None and not f.cluster.running:
        message = f"the managed cluster is {f.cluster.power_state}/{f.cluster.state}; start it with az aks start"
        return ConditionUpdate(status="Unknown", reason=reasons.CLUSTER_NOT_RUNNING, message=message, warning=True)
    return _last_failure(f)


def _name_taken(f: Facts, instance: Instance, claim: NodeClaim) -> ConditionUpdate | None:
    match verdict(instance, claim):
        case Verdict.OURS | Verdict.LEGACY:
            return None
        case Verdict.PREVIOUS:
            message = f"waiting for agent pool {f.key} of a previous claim of this name to be deleted"
            return ConditionUpdate(status="Unknown", reason=reasons.PREVIOUS_POOL_LEFT, message=message)
        case Verdict.ORPHANED_LEGACY:
            message = (
                f"waiting for agent pool {f.key}, created by Azure/gpu-provisioner for a previous claim, to be deleted"
            )
            if f.policy.legacy_pools == "report":
                message = f"agent pool {f.key} of Azure/gpu-provisioner has no claim: delete it or rename this claim"
            return ConditionUpdate(status="Unknown", reason=reasons.LEGACY_POOL_LEFT, message=message)
        case _:
            message = (
                f"agent pool {f.key} exists and is not managed by this controller: use another name for this claim"
            )
            return ConditionUpdate(status="False", reason=reasons.POOL_NAME_TAKEN, message=message, warning=True)


def _leftover_node(nodes: tuple[Node, ...]) -> ConditionUpdate:
    """Nodes of this pool's name that do not belong to this claim; those without a mark of ours are not deleted."""
    names = ", ".join(node.name for node in nodes[:2])
    message = f"waiting for Node {names} of a previous agent pool of this name to be deleted"
    if not any(marked(node) for node in nodes):
        message = (
            f"Node {names} of this pool name is not managed by this controller; delete it or use another claim name"
        )
    return ConditionUpdate(status="Unknown", reason=reasons.LEFTOVER_NODE, message=message)


def unreadable(claim: NodeClaim) -> ConditionUpdate:
    """The Launched condition of a claim with fields that cannot be decoded."""
    fields = "; ".join(claim.metadata.unreadable)
    message = f"cannot decode {fields}; correct the field, or recreate the claim without it"
    return ConditionUpdate(status="Unknown", reason=reasons.FIELD_UNREADABLE, message=message, warning=True)


def name_collides(f: Facts) -> ConditionUpdate:
    """The Launched condition of a claim whose derived pool name another claim has."""
    message = f"pool name {f.key} is in use by another claim; delete this claim and create a new one"
    return ConditionUpdate(status="False", reason=reasons.POOL_NAME_TAKEN, message=message, warning=True)


def _last_failure(f: Facts) -> ConditionUpdate | None:
    """The cause of the last attempt's failure until it is retried.

    A request that was refused for its offering does not keep the claim from requesting the next one.
    """
    unread = f.read_failed
    if unread is not None and unread.retry_in(f.loop_now) > 0:
        return ConditionUpdate(
            status="Unknown",
            reason=unread.reason,
            message=unread.message,
            recheck=unread.retry_in(f.loop_now),
            warning=True,
        )
    failed = f.create_failed
    if failed is None or not failed.concerns(f.claim, f.node_class) or failed.retry_in(f.loop_now) <= 0:
        return None
    if failed.kind == NoCapacity.kind or (f.offers and offerings.tries_next(failed)):
        return None
    recheck = None if failed.delay is None else failed.retry_in(f.loop_now)
    status: Status = "Unknown" if failed.kind == "retryable" else "False"
    return ConditionUpdate(status=status, reason=failed.reason, message=failed.message, recheck=recheck, warning=True)
