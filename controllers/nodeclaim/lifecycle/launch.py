"""A live claim's first stretch: from nothing to an accepted agent pool, and the Launched condition.

A pool is asked for once, under a name that is a function of the claim, and never under a name that is
taken; whatever keeps a claim from its pool is said on it, with since when and what to do. Launched turns True when the
pool runs or its Node is here, and goes back only if the pool fails before its Node was ever usable.

Source: docs/references/karpenter.md#launch, docs/references/rules.md#ownership-marks,
docs/references/rules.md#every-state-has-a-deadline, docs/references/rules.md#unavailable-offerings,
docs/references/rules.md#limits-on-cost-and-privilege.
"""

from datetime import datetime

from cloudprovider.errors import NoCapacity
from cloudprovider.interface import Instance, InstanceState
from controllers.model.conditions import ConditionUpdate, Status, clock_text
from controllers.model.deadlines import watched
from controllers.model.facts import Facts
from controllers.model.node_for_claim import node_for_claim, unrelated_nodes
from controllers.model.ownership import Verdict, held_by, marked, verdict
from controllers.model.steps import CreateInstance, Event, LookUpClaim, LookUpPool, Step, Wait
from provisioner.api import labels, reasons
from provisioner.api.conditions import LAUNCHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from . import launch_failure, limits, offerings
from .launch_failure import launched

USUAL_TIME = "AKS usually takes 3 to 8 min"
# What waits for a person, or for a removal, and not for room.
NOT_QUEUED = (reasons.LEFTOVER_NODE, reasons.POOL_DELETED, reasons.ADOPTION_REFUSED)


def accepted(claim: NodeClaim) -> bool:
    """Whether the claim's status says that AKS accepted its agent pool, which neither ran nor failed yet."""
    return any(
        c.type == LAUNCHED and c.status == "Unknown" and c.reason in (reasons.CREATING, reasons.POOL_DELETED)
        for c in claim.status.conditions
    )


def pool_missing(f: Facts, claim: NodeClaim) -> bool:
    """Whether this claim says that its pool was accepted, neither ran nor failed, and no answer shows that pool.

    Where no status can be written, what it says is old and means nothing.
    """
    return accepted(claim) and f.instance is None and node_for_claim(f) is None and "PatchStatus" not in f.refused


def is_queued(claim: NodeClaim) -> bool:
    """Whether this claim keeps its place by age. One that cannot be served, or not now, would hold up all behind it.

    What may have been asked for already stays in line: a list that lags must not let others take its room.
    """
    told = claim.condition(LAUNCHED)
    return told is None or (told.status == "Unknown" and told.reason not in NOT_QUEUED)


def step(f: Facts) -> Step | None:
    """Clear a failed attempt away, ask for the pool, or look when the last attempt's outcome is not known."""
    claim = f.claim
    if claim is None:
        return None
    if f.instance is not None:
        return launch_failure.step(f, claim)
    if clearing := launch_failure.step(f, claim):
        return clearing
    if launched(claim) or pool_missing(f, claim) or node_for_claim(f) is not None:
        return None
    failed, unread = f.create_failed, f.read_failed
    answerless = failed is not None and failed.uncertain and f.pool_read_age > failed.age
    if answerless and (unread is None or unread.holds_for <= 0):
        return LookUpPool(name=f.key)
    if blocking_condition(f) is not None:
        return None
    unsure = _verify_claim(f, claim)
    if unsure is not None:
        return unsure
    offering = offerings.next_offering(f)
    said = offerings.attempt_message(f, offering) if offering is not None else ""
    event = Event(type="Normal", reason=reasons.TRYING_OFFERING, message=said) if said else None
    return CreateInstance(claim=claim, name=f.key, offering=offering, event=event)


def _verify_claim(f: Facts, claim: NodeClaim) -> Step | None:
    """A cache that is behind may show a claim that was deleted since, its machine gone: a PUT would buy another."""
    if f.claim_read_age > f.policy.fresh_seconds:
        return LookUpClaim(name=claim.name)
    if f.claim_read is None or f.claim_read.uid != claim.uid or f.claim_read.deleting:
        return Wait(after=f.policy.fresh_seconds, why="the claim is not what the cache shows; the cache will follow")
    return None


def launched_since(f: Facts, claim: NodeClaim) -> datetime | None:
    """Since when the claim says that it is launched; now, if it is about to say so; None if it is not."""
    told = claim.condition(LAUNCHED, "True")
    if told is not None:
        return told.last_transition_time
    running = f.instance is not None and f.instance.state is InstanceState.RUNNING and held_by(f.instance, claim)
    return f.now if running else None


def condition(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Launched condition; None while there is nothing to say yet."""
    instance = f.instance
    if not launch_failure.failed_launch_remains(f, claim) and (launched(claim) or node_for_claim(f) is not None):
        return ConditionUpdate(status="True", reason=reasons.LAUNCHED)
    if pool_missing(f, claim):
        return _deleted_by_others(f, claim) if f.absence == "absent" else _lookup_failed(f)
    if instance is None or not held_by(instance, claim):
        held = blocking_condition(f)
        if held is None or _is_final(held):
            return held or offerings.last_failure(f)
        began = claim.metadata.creation_timestamp
        return watched(held, name="launch", since=began, now=f.now, limit_seconds=f.policy.launch_seconds)
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
            creating = ConditionUpdate(status="Unknown", reason=reasons.CREATING, message=message)
            return watched(creating, name="creating", since=began, now=f.now, limit_seconds=f.policy.creating_seconds)


def _is_final(held: ConditionUpdate) -> bool:
    """A verdict that no time will change has no deadline: it was told, and only a person can do something about it."""
    return held.status == "False" and held.recheck is None


def _failed(f: Facts, instance: Instance) -> ConditionUpdate:
    reason = reasons.CREATE_FAILED
    message = f"agent pool ended in {instance.raw_state}; see az aks nodepool show --name {instance.name}"
    if instance.failure is not None:
        reason, message = instance.failure.reason, instance.failure.message
        if instance.failure.kind == NoCapacity.kind and offerings.exhausted(f):
            message = offerings.with_exhausted(message)
    recheck = f.delete_failed.holds_for if f.delete_failed is not None else None
    return ConditionUpdate(status="False", reason=reason, message=message, recheck=recheck or None, warning=True)


def _keep_cause(claim: NodeClaim) -> ConditionUpdate | None:
    """While a failed pool is being removed, its cause stays what the claim says."""
    current = claim.condition(LAUNCHED, "False")
    if current is None:
        return None
    return ConditionUpdate(status="False", reason=current.reason, message=current.message, warning=True)


def _lookup_failed(f: Facts) -> ConditionUpdate | None:
    """The pool is not shown any longer, and nobody can be asked what became of it; it still counts as accepted."""
    unread = f.read_failed
    if unread is None or unread.holds_for <= 0:
        return None
    message = f"agent pool {f.key} is not in the list any longer, and cannot be looked up: {unread.message}"
    return ConditionUpdate(status="Unknown", reason=reasons.CREATING, message=message, warning=True)


def _deleted_by_others(f: Facts, claim: NodeClaim) -> ConditionUpdate:
    """A pool that never failed and that we did not delete: who deleted it meant the machine, so the claim goes too."""
    told = claim.condition(LAUNCHED)
    said = told.message if told is not None and told.reason == reasons.POOL_DELETED else ""
    message = (
        f"agent pool {f.key} was deleted by somebody else before it ever ran, as seen at {clock_text(f.now)};"
        " this claim goes with it: make a new one if the machine is still wanted"
    )
    return ConditionUpdate(status="Unknown", reason=reasons.POOL_DELETED, message=said or message, warning=True)


def blocking_condition(f: Facts) -> ConditionUpdate | None:
    """What keeps this claim from asking for its pool now, as its Launched condition says it; None: nothing does."""
    return own_blocking_condition(f) or offerings.blocking_condition(f) or limits.blocking_condition(f)


def own_blocking_condition(f: Facts) -> ConditionUpdate | None:
    """What keeps this claim back whatever Azure has to offer and however many others wait."""
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
    if kept := unrelated_nodes(f) or (() if node_for_claim(f) is not None else f.nodes):
        return _leftover_node(kept)
    if f.cluster is not None and not f.cluster.running:
        message = f"the managed cluster is {f.cluster.power_state}/{f.cluster.state}; start it with az aks start"
        return ConditionUpdate(status="Unknown", reason=reasons.CLUSTER_NOT_RUNNING, message=message, warning=True)
    return _last_failure(f)


def _name_taken(f: Facts, instance: Instance, claim: NodeClaim) -> ConditionUpdate | None:
    match verdict(instance, claim):
        case Verdict.OURS | Verdict.LEGACY:
            return None
        case Verdict.PREVIOUS:
            message = f"agent pool {f.key} belongs to an earlier claim of this name; it is removed first"
            return ConditionUpdate(status="Unknown", reason=reasons.PREVIOUS_POOL_LEFT, message=message)
        case Verdict.ORPHANED_LEGACY:
            message = f"agent pool {f.key} was made by Azure/gpu-provisioner for an earlier claim; it goes first"
            if f.policy.legacy_pools == "report":
                message = f"agent pool {f.key} is left over from Azure/gpu-provisioner: remove it or rename this claim"
            return ConditionUpdate(status="Unknown", reason=reasons.LEGACY_POOL_LEFT, message=message)
        case _:
            message = f"agent pool {f.key} exists and is not ours; it is left alone: use another name for this claim"
            return ConditionUpdate(status="False", reason=reasons.POOL_NAME_TAKEN, message=message, warning=True)


def _leftover_node(nodes: tuple[Node, ...]) -> ConditionUpdate:
    """Nodes under this pool's name that were not born for this claim; those that bear no mark of ours stay."""
    names = ", ".join(node.name for node in nodes[:2])
    message = f"Node {names} of an earlier machine of this pool name is still there; it is being removed first"
    if not any(marked(node) for node in nodes):
        message = f"Node {names} bears this pool name and is not ours; remove it or use another name for this claim"
    return ConditionUpdate(status="Unknown", reason=reasons.LEFTOVER_NODE, message=message)


def name_collides(f: Facts) -> ConditionUpdate:
    """What is said of a claim whose derived pool name another claim already has."""
    message = f"the pool name {f.key} is in use by another claim; delete this claim and create it anew"
    return ConditionUpdate(status="False", reason=reasons.POOL_NAME_TAKEN, message=message, warning=True)


def _last_failure(f: Facts) -> ConditionUpdate | None:
    """The last attempt failed and its time has not passed: its cause stays on the claim."""
    unread = f.read_failed
    if unread is not None and unread.holds_for > 0:
        return ConditionUpdate(
            status="Unknown", reason=unread.reason, message=unread.message, recheck=unread.holds_for, warning=True
        )
    failed = f.create_failed
    if failed is None or failed.kind == NoCapacity.kind or not failed.concerns(f.claim) or failed.holds_for <= 0:
        return None
    recheck = None if failed.delay is None else failed.holds_for
    status: Status = "Unknown" if failed.kind == "retryable" else "False"
    return ConditionUpdate(status=status, reason=failed.reason, message=failed.message, recheck=recheck, warning=True)
