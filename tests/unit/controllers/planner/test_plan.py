"""The plan tables: for each state of one machine, the one step to take. They are the specification."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.errors import Rejected
from cloudprovider.interface import Cluster, Failure, Gpus, InstanceState, Offering
from controllers.garbagecollection import garbage
from controllers.model import steps
from controllers.model.facts import Candidate, ClusterCounts, Facts, Failed, Unlisted
from controllers.model.policy import Policy
from controllers.planner.plan import explain, plan
from controllers.state.memory import remember_failure
from provisioner.api import labels
from provisioner.api.conditions import ConditionSet
from provisioner.api.meta import Taint
from tests.unit.builders import BORN, COLUMNS, KEY, NODE, NOW, SIZE, UID, UP, claim, facts, instance, node, offer
from tests.unit.controllers.node.drains import GOING, cordoned, drained, pod

CREATING, RUNNING = InstanceState.CREATING, InstanceState.RUNNING
DELETING, FAILED = InstanceState.DELETING, InstanceState.FAILED
GONE = {"absence": "absent", "proof_age": 5.0}
UNLISTED = Unlisted(reason="Throttled", message="Throttled: slow down; Retried automatically")
QUOTA = Failure(reason="QuotaExceeded", message="QuotaExceeded: no cores; ask for more", kind="no_capacity")
UNINITIALIZED = Taint(key=labels.UNINITIALIZED_TAINT, value="true", effect="NoSchedule")
READY_CLAIM = claim(up=UP, node_name=NODE, more_labels=COLUMNS)


def ready_claim(**fields: Any):
    """A claim whose status already says all there is to say about the default Node and pool."""
    made = claim(up=UP, node_name=NODE, more_labels=COLUMNS, **fields)
    status = msgspec.structs.replace(made.status, provider_id="azure:///x")
    return msgspec.structs.replace(made, status=status)


def failed(
    kind: str = "no_capacity", *, delay: float | None = 30.0, age: float = 1.0, uncertain: bool = False, **more: Any
) -> Failed:
    return Failed(
        kind=kind,
        reason="QuotaExceeded",
        message="no cores",
        times=1,
        age=age,
        delay=delay,
        uncertain=uncertain,
        for_uid=UID,
        **more,
    )


# A fresh read of the claim, just as the cache shows it.
READ = {"claim_read": claim(), "claim_read_age": 1.0}

UP_TABLE = [
    ("a new claim gets our finalizer before anything else", {"claims": (claim(finalizers=()),)}, steps.AddFinalizer),
    ("nothing is launched before the pools were listed", {"claims": (claim(),), "inventory_synced": False}, steps.Wait),
    (
        "if they cannot be listed, the claim says why",
        {"claims": (claim(),), "inventory_synced": False, "unlisted": UNLISTED},
        steps.PatchStatus,
    ),
    (
        "a Node that stops being Ready is told of without a list",
        {"claims": (READY_CLAIM,), "nodes": (node(ready="False"),), "inventory_synced": False},
        steps.PatchStatus,
    ),
    (
        "one that says something already keeps its words",
        {"claims": (claim(up=("Launched",)),), "inventory_synced": False, "unlisted": UNLISTED},
        steps.Wait,
    ),
    ("before its pool is asked for the claim is read afresh", {"claims": (claim(),)}, steps.LookUpClaim),
    ("then its pool is asked for", {"claims": (claim(),), **READ}, steps.CreateInstance),
    ("a read of long ago is none", {"claims": (claim(),), **READ, "claim_read_age": 11.0}, steps.LookUpClaim),
    (
        "a claim that was deleted since gets no machine",
        {"claims": (claim(),), **READ, "claim_read": claim(deleting=True)},
        steps.Wait,
    ),
    ("nor does one that is gone", {"claims": (claim(),), **READ, "claim_read": None}, steps.Wait),
    ("nor one of another UID", {"claims": (claim(),), **READ, "claim_read": claim(uid="uid-2")}, steps.Wait),
    (
        "nor one whose own Node of an earlier machine is still going",
        {"claims": (claim(),), "nodes": (node(deleting=True, finalizers=()),), **READ},
        steps.PatchStatus,
    ),
    ("an accepted pool is told of", {"claims": (claim(),), "instance": instance(CREATING)}, steps.PatchStatus),
    (
        "a Node that appears is registered first",
        {"claims": (claim(),), "instance": instance(CREATING), "nodes": (node(registered=False, finalizers=()),)},
        steps.PatchNode,
    ),
    (
        "then the claim gets its columns",
        {"claims": (claim(),), "instance": instance(CREATING), "nodes": (node(initialized=False, ready="False"),)},
        steps.PatchClaim,
    ),
    (
        "but not before the node manager has said in which zone it is",
        {
            "claims": (claim(),),
            "instance": instance(CREATING),
            "nodes": (node(initialized=False, ready="False", taints=(UNINITIALIZED,)),),
        },
        steps.PatchStatus,
    ),
    (
        "a Node of this moment is told of when the node manager has said what it is",
        {
            "claims": (claim(),),
            "instance": instance(CREATING),
            "nodes": (node(initialized=False, ready="False", taints=(UNINITIALIZED,), age_seconds=2.0),),
        },
        steps.Wait,
    ),
    (
        "a pool that runs is told of; the columns wait for its Node",
        {"claims": (claim(),), "instance": instance()},
        steps.PatchStatus,
    ),
    (
        "unless the Node does not come",
        {"claims": (claim(up=("Launched",)),), "instance": instance()},
        steps.PatchClaim,
    ),
    (
        "a usable Node is labelled initialized before the claim says so",
        {"claims": (claim(more_labels=COLUMNS),), "instance": instance(CREATING), "nodes": (node(initialized=False),)},
        steps.PatchNode,
    ),
    (
        "then the claim is Ready, even while ARM still says Creating",
        {"claims": (claim(more_labels=COLUMNS),), "instance": instance(CREATING), "nodes": (node(),)},
        steps.PatchStatus,
    ),
    (
        "a healthy machine is left alone",
        {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(),)},
        steps.Wait,
    ),
    (
        "a stripped finalizer on the Node is restored",
        {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(finalizers=()),)},
        steps.PatchNode,
    ),
    (
        "a Node that turns NotReady takes Initialized back",
        {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(ready="Unknown"),)},
        steps.PatchStatus,
    ),
    (
        "a foreign pool of that name is never written to",
        {"claims": (claim(),), "instance": instance(uid="")},
        steps.PatchStatus,
    ),
    (
        "an earlier claim's pool is waited for, and told of",
        {"claims": (claim(),), "instance": instance(uid="uid-0")},
        steps.PatchStatus,
    ),
    (
        "no PUT while a Node of that pool name is left over",
        {"claims": (claim(),), "nodes": (node(uid_label="uid-0", ready="False"),)},
        steps.PatchStatus,
    ),
    (
        "no PUT while the cluster is stopped",
        {"claims": (claim(),), "cluster": Cluster(running=False, power_state="Stopped")},
        steps.PatchStatus,
    ),
    ("what cannot be had is told", {"claims": (claim(),), "offers": (offer(30.0),)}, steps.PatchStatus),
    (
        "and asked for again once it has rested",
        {
            "claims": (claim(down={"Launched": "QuotaExceeded"}),),
            "offers": (offer(0.0),),
            "create_failed": failed(),
            **READ,
        },
        steps.CreateInstance,
    ),
    (
        "or another offering at once",
        {
            "claims": (claim(down={"Launched": "QuotaExceeded"}),),
            "offers": (offer(30.0), offer(size="Standard_B")),
            **READ,
        },
        steps.CreateInstance,
    ),
    (
        "a refused create is told",
        {"claims": (claim(),), "create_failed": failed("rejected", delay=300.0)},
        steps.PatchStatus,
    ),
    (
        "and tried again once its time has passed",
        {"claims": (claim(down={"Launched": "BadRequest"}),), "create_failed": failed("rejected", age=31.0), **READ},
        steps.CreateInstance,
    ),
    (
        "a PUT whose outcome is unknown is looked up first",
        {"claims": (claim(),), "create_failed": failed("retryable", age=6.0, delay=5.0, uncertain=True)},
        steps.LookUpPool,
    ),
    (
        "and sent again if the pool is not there",
        {
            "claims": (claim(),),
            "create_failed": failed("retryable", age=6.0, delay=5.0, uncertain=True),
            "pool_read_age": 1.0,
            **READ,
        },
        steps.CreateInstance,
    ),
    (
        "a failed pool's cause is told before anything else",
        {"claims": (claim(),), "instance": instance(FAILED, failure=QUOTA)},
        steps.PatchStatus,
    ),
    (
        "then the failed pool is removed",
        {"claims": (claim(down={"Launched": "QuotaExceeded"}),), "instance": instance(FAILED, failure=QUOTA)},
        steps.DeleteInstance,
    ),
    (
        "a pool that failed after it had run is kept: its machine may be well",
        {"claims": (ready_claim(),), "instance": instance(FAILED, failure=QUOTA), "nodes": (node(),)},
        steps.Wait,
    ),
    (
        "claims beyond the pool limit say their place",
        {"claims": (claim(),), "counts": ClusterCounts(pools=90, place=2, waiting=3)},
        steps.PatchStatus,
    ),
    ("an own write not yet seen is waited for", {"claims": (claim(),), "own_write_pending": True}, steps.Wait),
    ("caches that were never filled decide nothing", {"claims": (claim(),), "kube_synced": False}, steps.Wait),
    (
        "a refused status write does not stand in the way of the rest",
        {
            "claims": (claim(),),
            "instance": instance(CREATING),
            "nodes": (node(registered=False, finalizers=()),),
            "refused": {"PatchStatus": "Invalid: no"},
        },
        steps.PatchNode,
    ),
]


@pytest.mark.parametrize(("told", "known", "expected"), UP_TABLE, ids=[row[0] for row in UP_TABLE])
def test_way_up(told: str, known: dict, expected: type) -> None:
    """A live claim climbs one step at a time."""
    assert isinstance(plan(facts(**known)), expected), told


DOWN_TABLE = [
    (
        "a held Node is deleted first",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(),)},
        steps.DeleteNode,
    ),
    (
        "then new pods are kept off it",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(deleting=True),)},
        steps.PatchNode,
    ),
    (
        "then the instance goes",
        {"claims": (GOING,), "instance": instance(), "nodes": ("cordoned",), "drains": drained()},
        steps.DeleteInstance,
    ),
    (
        "but its pods are read first",
        {"claims": (GOING,), "instance": instance(), "nodes": ("cordoned",)},
        steps.ReadDrain,
    ),
    (
        "and asked to leave",
        {"claims": (GOING,), "instance": instance(), "nodes": ("cordoned",), "drains": drained(pod())},
        steps.EvictPods,
    ),
    (
        "a pool being created is deleted at once",
        {"claims": (GOING,), "instance": instance(CREATING)},
        steps.DeleteInstance,
    ),
    (
        "a refused deletion is not repeated before its time",
        {"claims": (GOING,), "instance": instance(CREATING), "delete_failed": failed("retryable", delay=5.0)},
        steps.PatchStatus,
    ),
    (
        "a refused one is repeated after it",
        {"claims": (GOING,), "instance": instance(CREATING), "delete_failed": failed("retryable", delay=5.0, age=6.0)},
        steps.DeleteInstance,
    ),
    (
        "one whose answer was lost is looked up first: the pool may be going already",
        {
            "claims": (GOING,),
            "instance": instance(),
            "delete_failed": failed("retryable", delay=5.0, age=6.0, unanswered=True),
        },
        steps.LookUpPool,
    ),
    (
        "and repeated if it is not",
        {
            "claims": (GOING,),
            "instance": instance(),
            "delete_failed": failed("retryable", delay=5.0, age=6.0, unanswered=True),
            "pool_read_age": 1.0,
        },
        steps.DeleteInstance,
    ),
    (
        "a pool being deleted is not deleted again",
        {"claims": (GOING,), "instance": instance(DELETING)},
        steps.PatchStatus,
    ),
    ("an unlisted pool is looked up by name", {"claims": (GOING,)}, steps.LookUpPool),
    (
        "a 404 that is not settled proves nothing",
        {"claims": (GOING,), "absence": "unsettled", "settles_in": 40.0, "pool_read_age": 1.0},
        steps.Wait,
    ),
    (
        "a settled 404 lets the Node go",
        {"claims": (GOING,), "nodes": (node(deleting=True),), **GONE},
        steps.ReleaseFinalizer,
    ),
    (
        "a Node that nobody deleted yet is deleted now",
        {"claims": (GOING,), "nodes": (node(finalizers=()),), **GONE},
        steps.DeleteNode,
    ),
    ("the claim waits for a view of the Nodes newer than the proof", {"claims": (GOING,), **GONE}, steps.LookUpNodes),
    ("then the claim goes", {"claims": (GOING,), "nodes_known_age": 1.0, **GONE}, steps.ReleaseFinalizer),
    (
        "a foreign pool under its name is looked at, not deleted",
        {"claims": (GOING,), "instance": instance(uid="")},
        steps.LookUpPool,
    ),
    (
        "and does not hold the claim",
        {
            "claims": (GOING,),
            "instance": instance(uid=""),
            "pool_read_age": 2.0,
            "proof_age": 2.0,
            "nodes_known_age": 1.0,
        },
        steps.ReleaseFinalizer,
    ),
    (
        "a Node without our finalizer is never deleted while its pool exists",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(finalizers=()),)},
        steps.DeleteInstance,
    ),
    (
        "a refused status write never stands before the removal",
        {"claims": (GOING,), "instance": instance(DELETING), "refused": {"PatchStatus": "Invalid: no"}},
        steps.Wait,
    ),
    ("without its key's pools listed nothing is inferred", {"claims": (GOING,), "inventory_synced": False}, steps.Wait),
    (
        "a removal that cannot begin says why",
        {"claims": (GOING,), "inventory_synced": False, "unlisted": UNLISTED},
        steps.PatchStatus,
    ),
]


@pytest.mark.parametrize(("told", "known", "expected"), DOWN_TABLE, ids=[row[0] for row in DOWN_TABLE])
def test_way_down(told: str, known: dict, expected: type) -> None:
    """A deleting claim goes in the order instance, Node, claim."""
    if known.get("nodes") == ("cordoned",):
        known = {**known, "nodes": (cordoned(),)}
    assert isinstance(plan(facts(**known)), expected), told


OLD = 1000.0


def candidate_seen(cause: str, **fields: Any) -> dict:
    return {"candidate": Candidate(cause=cause, age=OLD), "claim_read_age": 1.0, "pool_read_age": 1.0, **fields}


DELETED_NODE = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(deleting=True),)}
GARBAGE_TABLE = [
    (
        "a pool without a claim is deleted after two looks and fresh reads",
        candidate_seen("orphan-pool", instance=instance()),
        steps.DeleteInstance,
    ),
    (
        "not before the second look",
        {**candidate_seen("orphan-pool", instance=instance()), "candidate": Candidate(cause="orphan-pool", age=1.0)},
        steps.Wait,
    ),
    (
        "not without a fresh read of the claim",
        {**candidate_seen("orphan-pool", instance=instance()), "claim_read_age": math.inf},
        steps.LookUpClaim,
    ),
    (
        "not without a fresh read of the pool",
        {**candidate_seen("orphan-pool", instance=instance()), "pool_read_age": math.inf},
        steps.LookUpPool,
    ),
    (
        "not if the fresh read shows the claim alive",
        {**candidate_seen("orphan-pool", instance=instance()), "claim_read": claim()},
        steps.Wait,
    ),
    (
        "not on a list of pools that is too old",
        {**candidate_seen("orphan-pool", instance=instance()), "inventory_age": 91.0},
        steps.Wait,
    ),
    (
        "not while the cluster is stopped",
        {**candidate_seen("orphan-pool", instance=instance()), "cluster": Cluster(running=False)},
        steps.Wait,
    ),
    (
        "not while nobody knows whether the cluster runs",
        {**candidate_seen("orphan-pool", instance=instance()), "cluster": None},
        steps.Wait,
    ),
    (
        "not while AKS works on the pool",
        candidate_seen("orphan-pool", instance=instance(raw_state="Upgrading")),
        steps.Wait,
    ),
    (
        "not while the circuit breaker is on",
        {**candidate_seen("orphan-pool", instance=instance()), "counts": ClusterCounts(restricted=True)},
        steps.Wait,
    ),
    (
        "a claim whose pool is gone goes",
        candidate_seen("missing-pool", claims=(ready_claim(),), claim_read=ready_claim(), **GONE),
        steps.DeleteClaim,
    ),
    (
        "not while its Node is Ready",
        candidate_seen("missing-pool", claims=(ready_claim(),), nodes=(node(),), claim_read=ready_claim(), **GONE),
        steps.Wait,
    ),
    (
        "not on an unsettled 404",
        candidate_seen(
            "missing-pool", claims=(ready_claim(),), claim_read=ready_claim(), absence="unsettled", settles_in=30.0
        ),
        steps.Wait,
    ),
    (
        "one Node deleted by hand takes its claim along",
        candidate_seen("node-deleted", claim_read=ready_claim(), **DELETED_NODE),
        steps.DeleteClaim,
    ),
    (
        "a Node deleted while the cluster is stopped is let go, and its pool kept",
        {**candidate_seen("node-deleted", claim_read=ready_claim(), **DELETED_NODE), "cluster": Cluster(running=False)},
        steps.ReleaseFinalizer,
    ),
    (
        "and so is one whose pool AKS is upgrading",
        candidate_seen(
            "node-deleted",
            claims=(ready_claim(),),
            instance=instance(raw_state="Upgrading"),
            nodes=(node(deleting=True),),
        ),
        steps.ReleaseFinalizer,
    ),
    (
        "claims that go only because their CRD does pass the circuit breaker",
        candidate_seen(
            "crd-deleted",
            claims=(GOING,),
            instance=instance(),
            crd_deleting=True,
            counts=ClusterCounts(restricted=True),
        ),
        steps.Wait,
    ),
    (
        "and go if they are few",
        candidate_seen("crd-deleted", claims=(GOING,), instance=instance(), crd_deleting=True),
        steps.DeleteInstance,
    ),
    (
        "a deleted Node of a vanished machine is released",
        candidate_seen("leftover-node", nodes=(node(deleting=True, ready="Unknown"),), **GONE),
        steps.ReleaseFinalizer,
    ),
    (
        "a left-over Node is deleted once its pool is proven gone",
        candidate_seen("leftover-node", nodes=(node(ready="Unknown", finalizers=()),), **GONE),
        steps.DeleteNode,
    ),
    ("a foreign pool without a claim is nobody's garbage", {"instance": instance(uid="")}, steps.Forget),
    ("a key of which nothing is left is forgotten", {}, steps.Forget),
]


@pytest.mark.parametrize(("told", "known", "expected"), GARBAGE_TABLE, ids=[row[0] for row in GARBAGE_TABLE])
def test_inferred_removals(told: str, known: dict, expected: type) -> None:
    """What nobody asked for goes only when it is certain, rested and within the circuit breaker."""
    step = plan(facts(**known))
    if expected is steps.Wait and isinstance(step, steps.PatchStatus):
        step = plan(facts(**known, refused={"PatchStatus": "Invalid: no"}))
    assert isinstance(step, expected), (told, step)


def launching(reason: str = "Creating", **fields: Any):
    """A claim whose pool was accepted, and which says so."""
    made = claim(**fields)
    conditions = ConditionSet.of(made, BORN).set("Launched", "Unknown", reason=reason, message="m", now=BORN)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=conditions.items))


LOST_TABLE = [
    ("what its absence is not proven of is looked up", {"claims": (launching(),)}, steps.LookUpPool),
    (
        "a 404 that may be lag is waited for, and nothing is asked for meanwhile",
        {"claims": (launching(),), "absence": "unsettled", "settles_in": 30.0, "pool_read_age": 1.0},
        steps.Wait,
    ),
    ("a proven absence is told", {"claims": (launching(),), **GONE}, steps.PatchStatus),
    (
        "once told it is looked at twice",
        {"claims": (launching("PoolDeleted"),), "candidate": Candidate(cause="missing-pool", age=1.0), **GONE},
        steps.Wait,
    ),
    (
        "then the claim goes",
        candidate_seen("missing-pool", claims=(launching("PoolDeleted"),), claim_read=launching(), **GONE),
        steps.DeleteClaim,
    ),
    (
        "unless too many would",
        candidate_seen(
            "missing-pool", claims=(launching("PoolDeleted"),), counts=ClusterCounts(restricted=True), **GONE
        ),
        steps.Wait,
    ),
    (
        "a pool that others are deleting is told of at once",
        {"claims": (launching(),), "instance": instance(DELETING)},
        steps.PatchStatus,
    ),
    (
        "a failed pool that was removed is followed by a new attempt",
        {"claims": (claim(down={"Launched": "QuotaExceeded"}),), "create_failed": failed(age=31.0), **GONE, **READ},
        steps.CreateInstance,
    ),
    (
        "and so it is where its cause could not be told",
        {"claims": (launching(),), "refused": frozenset({"PatchStatus"}), **GONE, **READ},
        steps.CreateInstance,
    ),
]


@pytest.mark.parametrize(("told", "known", "expected"), LOST_TABLE, ids=[row[0] for row in LOST_TABLE])
def test_a_pool_that_vanished_before_it_ran(told: str, known: dict, expected: type) -> None:
    """Who deletes a pool while it is being created means the machine: it is not made anew, its claim goes too."""
    assert isinstance(plan(facts(**known)), expected), told


def test_a_vanished_pool_makes_its_claim_a_suspect_only_when_that_is_proven() -> None:
    """Lists lag after a restart: claims whose pools they do not show yet must not trip the circuit breaker."""
    assert garbage.candidate_cause(facts(claims=(launching(),))) is None
    assert garbage.candidate_cause(facts(claims=(launching(),), **GONE)) == "missing-pool"


def test_a_vanished_pool_that_cannot_be_looked_up_is_not_said_to_be_coming() -> None:
    """Until its absence is proven it counts as accepted; the claim says what hinders the proof, in unchanged words."""
    unread = failed("retryable", delay=90.0)
    step = plan(facts(claims=(launching(),), read_failed=unread))
    assert isinstance(step, steps.PatchStatus)
    (told,) = [c for c in step.conditions if c.type == "Launched"]
    assert (told.status, told.reason) == ("Unknown", "Creating")
    assert told.message == f"agent pool {KEY} is no longer listed, and reading it failed: {unread.message}"
    status = msgspec.structs.replace(step.claim.status, conditions=step.conditions)
    told_claim = msgspec.structs.replace(step.claim, status=status)
    assert isinstance(plan(facts(claims=(told_claim,), read_failed=unread)), steps.Wait)
    assert isinstance(plan(facts(claims=(told_claim,))), steps.LookUpPool)


def test_what_became_of_a_deleted_pool_is_told_in_the_same_words() -> None:
    """From the first sight of its deletion to the claim's own end the message keeps its time."""
    step = plan(facts(claims=(launching(),), instance=instance(DELETING)))
    assert isinstance(step, steps.PatchStatus)
    (told,) = [c for c in step.conditions if c.type == "Launched"]
    assert (told.status, told.reason) == ("Unknown", "PoolDeleted")
    assert "observed at 12:10:00Z" in told.message
    status = msgspec.structs.replace(step.claim.status, conditions=step.conditions)
    told_claim = msgspec.structs.replace(step.claim, status=status)
    later = facts(claims=(told_claim,), now=NOW + timedelta(minutes=1), **GONE)
    assert isinstance(plan(later), steps.Wait)


def test_a_failed_pool_whose_removal_is_refused_is_removed_when_the_time_has_come() -> None:
    """Nothing else would wake a claim whose failed pool AKS did not let go at once."""
    waiting = {
        "claims": (claim(down={"Launched": "QuotaExceeded"}),),
        "instance": instance(FAILED, failure=QUOTA),
        "refused": frozenset({"PatchStatus"}),
    }
    held = plan(facts(**waiting, delete_failed=failed("retryable", delay=5.0, age=1.0)))
    assert isinstance(held, steps.Wait)
    assert held.after == 4.0
    assert isinstance(plan(facts(**waiting, delete_failed=failed("retryable", age=30.0))), steps.DeleteInstance)


@pytest.mark.parametrize(
    ("within", "says"), [(30.0, "next try within 30 s"), (120.0, "next try within 2 min"), (None, "12:09:30Z")]
)
def test_a_refused_deletion_says_why_since_when_and_when_next(within: float | None, says: str) -> None:
    """The code first; the deletion's time; the same words at every try, and room for those of a deadline."""
    told = set()
    for times, delay in enumerate((5.0, 10.0, 20.0, 30.0), start=1):
        refusal = failed("retryable", delay=delay, within=within)
        refusal = msgspec.structs.replace(
            refusal, times=times, message="OperationNotAllowed: " + "busy " * 60 + ". Do this"
        )
        known = facts(claims=(GOING,), instance=instance(CREATING), delete_failed=refusal)
        told.add(conditions(known)["InstanceTerminating"][2])
    (message,) = told
    assert message.startswith("OperationNotAllowed: busy")
    assert " Do this; deletion due since 12:09:30Z" in message
    assert says in message
    assert len(message.encode()) <= 256 - len("; overdue: over 30 min")


def conditions(known: Facts) -> dict[str, tuple[str, str, str]]:
    step = plan(known)
    assert isinstance(step, steps.PatchStatus), step
    return {c.type: (c.status, c.reason, c.message) for c in step.conditions}


def test_launched_and_what_it_waits_for_are_told_in_one_write() -> None:
    """A pool that runs before its Node is here: Launched is True, and Registered says what is missing, at once."""
    told = plan(facts(claims=(claim(),), instance=instance()))
    assert isinstance(told, steps.PatchStatus)
    assert [(c.type, c.reason) for c in told.conditions if c.type in ("Launched", "Registered")] == [
        ("Registered", "NodeNotFound"),
        ("Launched", "Launched"),
    ]


@pytest.mark.parametrize(
    ("registered", "condition"),
    [(False, "Registered"), (True, "Initialized")],
    ids=["when it is to be registered", "when it is to be labelled initialized"],
)
def test_a_refused_change_to_the_node_is_told(registered: bool, condition: str) -> None:
    """A missing permission to patch Nodes stands on the claim, in the API server's words and with what to do."""
    said = "Forbidden: nodes is forbidden: User cannot patch resource"
    born = node(registered=registered, initialized=False)
    claims = (claim(up=("Launched", "Registered") if registered else (), more_labels=COLUMNS),)
    told = conditions(facts(claims=claims, instance=instance(), nodes=(born,), refused={"PatchNode": said}))
    status, reason, message = told[condition]
    assert (status, reason) == ("Unknown", "NodeUpdateRefused")
    assert message.startswith(f"{said}: failed to patch Node {NODE}, created ")
    assert message.endswith("see kubectl auth can-i patch nodes")
    assert told["Ready"][0] != "True"


def test_the_wait_for_the_node_manager_ends() -> None:
    """Ten seconds after the Node's birth the claim tells of it, whatever the node manager does."""
    young = node(initialized=False, ready="False", taints=(UNINITIALIZED,), age_seconds=4.0)
    waiting = plan(facts(claims=(claim(more_labels=COLUMNS),), instance=instance(CREATING), nodes=(young,)))
    assert waiting == steps.Wait(after=6.0, why=f"waiting for the providerID of Node {NODE}")


def test_ready_and_node_name_are_written_together() -> None:
    """KAITO takes a claim with nodeName but without Ready for ready, so they come in one write."""
    step = plan(facts(claims=(claim(more_labels=COLUMNS),), instance=instance(CREATING), nodes=(node(),)))
    assert isinstance(step, steps.PatchStatus)
    assert step.fields["nodeName"] == NODE
    assert [c.type for c in step.conditions][-1] == "Ready"
    assert {c.type: c.status for c in step.conditions} == dict.fromkeys((*UP, "Ready"), "True")


def test_gpu_gate_names_resource_seen_and_expected() -> None:
    """A Node without its GPUs keeps the gate shut, and the message says what is missing and what to do."""
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS),),
        instance=instance(),
        nodes=(node(gpus="0", initialized=False),),
        gpus=Gpus(resource="nvidia.com/gpu", count=8),
    )
    status, reason, message = conditions(known)["Initialized"]
    assert (status, reason) == ("Unknown", "ResourceNotRegistered")
    assert message.startswith("nvidia.com/gpu: 0 of 8 allocatable")
    assert "gpu-readiness=report" in message


@pytest.mark.parametrize("by", ["annotation", "policy"])
def test_gpus_that_are_only_reported_do_not_hold_the_claim(by: str) -> None:
    """Clusters whose device plugin comes later may go without the gate."""
    notes = {labels.GPU_READINESS: "report"} if by == "annotation" else {}
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS, annotations=notes),),
        instance=instance(),
        nodes=(node(gpus="0"),),
        policy=Policy(gpu_readiness="report" if by == "policy" else "require"),
    )
    assert conditions(known)["Initialized"][0] == "True"


def test_size_without_data_has_no_gate_and_says_so() -> None:
    """A size missing from the table is not waited for; the Event says that it was not."""
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS),),
        instance=instance(),
        nodes=(node(gpus="0"),),
        gpus=Gpus(known=False),
    )
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    assert any("not known" in event.message for event in step.events)


def test_initialized_and_ready_go_back_in_one_write() -> None:
    """A Node that stops being usable makes Initialized and Ready False at once."""
    known = facts(claims=(ready_claim(),), instance=instance(), nodes=(node(ready="Unknown"),))
    said = conditions(known)
    assert said["Initialized"][:2] == ("False", "NodeNotReady")
    assert said["Ready"][:2] == ("False", "UnhealthyDependents")
    assert said["Launched"][0] == said["Registered"][0] == "True"


def test_a_node_that_came_back_is_not_spoken_of_before_its_taints_are_gone() -> None:
    """The node controller is always a little behind: between NotReady and usable nothing is written (K13)."""
    lost = ready_claim()
    status = claim(up=UP[:2], down={"Initialized": "NodeNotReady"}, node_name=NODE).status
    lost = msgspec.structs.replace(lost, status=msgspec.structs.replace(status, provider_id="azure:///x"))
    back = {"claims": (lost,), "instance": instance()}
    behind = (Taint(key=labels.NOT_READY_TAINT, effect="NoSchedule"),)
    waiting = plan(facts(**back, nodes=(node(taints=behind),), now=NOW + timedelta(seconds=4)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == pytest.approx(26.0)
    stuck = facts(**back, nodes=(node(taints=behind),), now=NOW + timedelta(seconds=31))
    assert conditions(stuck)["Initialized"][1] == "KnownEphemeralTaintsExist"
    others = (*behind, Taint(key="readiness.k8s.io/network", effect="NoSchedule"))
    assert conditions(facts(**back, nodes=(node(taints=others),)))["Initialized"][1] == "KnownEphemeralTaintsExist"
    assert conditions(facts(**back, nodes=(node(),)))["Initialized"][0] == "True"


def test_gpu_loss_is_tolerated_for_six_minutes() -> None:
    """A restarting device plugin must not flap its users."""
    lost = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(gpus="0"),)}
    waiting = plan(facts(**lost, gpu_short_age=100.0))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == pytest.approx(260.0)
    assert conditions(facts(**lost, gpu_short_age=361.0))["Initialized"][:2] == ("False", "GPUUnavailable")


def test_startup_taint_holds_initialization() -> None:
    """A startup taint that is still there is named."""
    taint = Taint(key="gkm.io/cache-not-ready", effect="NoSchedule")
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS, startup_taints=(taint,)),),
        instance=instance(),
        nodes=(node(taints=(taint,), initialized=False),),
    )
    assert conditions(known)["Initialized"][1] == "StartupTaintsExist"
    assert 'StartupTaint "gkm.io/cache-not-ready:NoSchedule" still exists' in conditions(known)["Initialized"][2]


def test_final_rejection_waits_for_the_claim_not_for_time() -> None:
    """What our own validation refuses in an immutable spec is never tried again."""
    told = claim(down={"Launched": "QuotaExceeded"})
    known = facts(claims=(told,), create_failed=failed("rejected", delay=None))
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    again = plan(
        facts(claims=(told,), create_failed=failed("rejected", delay=None), refused={"PatchStatus": "Invalid: no"})
    )
    assert isinstance(again, steps.Wait)


def test_a_final_word_has_no_deadline() -> None:
    """What no time will change is told once, and not once more as overdue."""
    final = {"claims": (claim(),), "create_failed": failed("rejected", delay=None)}
    taken = {"claims": (claim(),), "instance": instance(uid="")}
    for known in (final, taken):
        early, late = (facts(**known, now=BORN + timedelta(minutes=m)) for m in (1, 60))
        assert conditions(early)["Launched"] == conditions(late)["Launched"]
    waiting = {"claims": (claim(),), "create_failed": failed("rejected", delay=600.0)}
    assert conditions(facts(**waiting, now=BORN + timedelta(minutes=60)))["Launched"][2].endswith("overdue: over 5 min")


def test_a_leftover_node_is_reported_by_its_owner() -> None:
    """A Node with our mark is deleted by us; another one has to be deleted by a user."""
    ours, theirs = node(uid_label="uid-0", ready="False"), node(uid_label="")
    assert (
        "of a previous agent pool of this name to be deleted"
        in conditions(facts(claims=(claim(),), nodes=(ours,)))["Launched"][2]
    )
    assert (
        "is not managed by this controller; delete it"
        in conditions(facts(claims=(claim(),), nodes=(theirs,)))["Launched"][2]
    )


def test_a_refused_claim_whose_labels_were_corrected_is_tried_again() -> None:
    """The spec is immutable, labels and annotations are not."""
    refused = claim(more_labels={"agentpool": "x"}, down={"Launched": "LabelRefused"})
    memory = remember_failure(None, Rejected("LabelRefused", "no", final=True), now=0.0, claim=refused)
    for asked, expected in ((refused, steps.Wait), (claim(down={"Launched": "LabelRefused"}), steps.CreateInstance)):
        known = facts(
            claims=(asked,), create_failed=memory.as_fact(1.0), refused={"PatchStatus": "Invalid: no"}, **READ
        )
        assert isinstance(plan(known), expected)


def test_deadline_speaks_once_and_destroys_nothing() -> None:
    """A pool that takes too long says so with an Event and a metric; the machine stays."""
    late = facts(claims=(claim(),), instance=instance(CREATING), now=BORN + timedelta(minutes=46))
    step = plan(late)
    assert isinstance(step, steps.PatchStatus)
    assert step.overdue == "creating"
    assert any(event.type == "Warning" for event in step.events)
    told = msgspec.structs.replace(claim(), status=msgspec.structs.replace(claim().status, conditions=step.conditions))
    assert isinstance(plan(msgspec.structs.replace(late, claims=(told,))), steps.Wait)


def test_a_deadline_that_was_told_is_not_told_again_in_other_words() -> None:
    """A place in line may change after the deadline; the claim says so, without another Event or count."""
    waiting = {"claims": (claim(),), "now": BORN + timedelta(minutes=6)}
    late = plan(facts(**waiting, counts=ClusterCounts(pools=90, place=2, waiting=3)))
    assert isinstance(late, steps.PatchStatus)
    assert (late.overdue, len(late.events)) == ("launch", 1)
    told = msgspec.structs.replace(claim(), status=msgspec.structs.replace(claim().status, conditions=late.conditions))
    again = plan(facts(**{**waiting, "claims": (told,)}, counts=ClusterCounts(pools=90, place=1, waiting=2)))
    assert isinstance(again, steps.PatchStatus)
    assert (again.overdue, again.events) == ("", ())
    assert "position 1 of 2 in the queue" in {c.type: c.message for c in again.conditions}["Launched"]


def test_nothing_left_to_try_is_said_in_the_words_kaito_knows() -> None:
    """The last cause first, then the words of K10; while another offering is free they are not there."""
    rests = (offer(30.0, failed_age=0.5), offer(90.0, size="Standard_B"))
    told = conditions(facts(claims=(claim(),), offers=rests))["Launched"]
    phrase = "all requested instance types were unavailable during launch"
    assert told == ("False", "QuotaExceeded", f"no cores for {SIZE}; {phrase}; overdue: over 5 min")
    untold = claim(down={"Launched": "Creating"})
    step = plan(facts(claims=(untold,), offers=(rests[0], offer(size="Standard_B")), **READ))
    assert isinstance(step, steps.CreateInstance)
    assert step.offering == Offering(size="Standard_B")
    assert step.event is not None
    assert step.event.message == f"creating Standard_B, choice 2 of 2; {SIZE}: QuotaExceeded"


def test_a_failed_try_is_told_although_the_next_follows_at_once() -> None:
    """Each try is an event: its cause stands on the claim before the next offering is asked for."""
    known = facts(claims=(claim(),), offers=(offer(30.0), offer(size="Standard_B")), create_failed=failed())
    told = explain(known)
    assert told is not None
    assert ("Launched", "False", "no cores") in [(c.type, c.status, c.message) for c in told.conditions]
    assert [event.type for event in told.events] == ["Warning"]


def test_what_rests_for_all_keeps_its_text_for_each() -> None:
    """Other claims' tries change the numbers in the cause; a claim that says why already is not written again."""
    first = plan(facts(claims=(claim(),), offers=(offer(30.0),)))
    assert isinstance(first, steps.PatchStatus)
    told = msgspec.structs.replace(claim(), status=msgspec.structs.replace(claim().status, conditions=first.conditions))
    anew = msgspec.structs.replace(offer(60.0), message="other numbers")
    waiting = plan(facts(claims=(told,), offers=(anew,)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == 60.0


def test_a_long_cause_leaves_room_for_its_deadline() -> None:
    """A message of 256 bytes gives way to the words that say it is overdue."""
    long = msgspec.structs.replace(failed("rejected", delay=600.0), message="x" * 256)
    known = facts(claims=(claim(),), create_failed=long, now=BORN + timedelta(minutes=6))
    assert conditions(known)["Launched"][2].endswith("x...; overdue: over 5 min")
    assert len(conditions(known)["Launched"][2]) == 256


def test_a_refused_write_is_waited_for_like_any_deadline() -> None:
    """Nothing may change until the refusal has aged, so the plan asks to be woken then."""
    known = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(ready="Unknown"),)}
    refused = {"refused": {"PatchStatus": "Invalid: no"}, "refused_for": 55.0}
    waiting = plan(facts(**known, **refused))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == 55.0


def test_an_unchanged_claim_is_not_written_again() -> None:
    """What a status write says, the next plan finds said."""
    known = facts(claims=(claim(),), instance=instance(CREATING))
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    told = msgspec.structs.replace(claim(), status=msgspec.structs.replace(claim().status, conditions=step.conditions))
    waiting = plan(msgspec.structs.replace(known, claims=(told,), now=NOW + timedelta(seconds=7)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after is not None


def test_explaining_a_failure_is_one_status_write() -> None:
    """The write that explains a failed create says its reason on Launched."""
    step = explain(facts(claims=(claim(),), create_failed=failed()))
    assert step is not None
    assert {c.type: c.reason for c in step.conditions}["Launched"] == "QuotaExceeded"


def test_a_pool_that_will_not_go_is_told_of() -> None:
    """A deletion that AKS accepted and does not finish wakes us at its deadline, and is then overdue."""
    known = facts(claims=(GOING,), instance=instance(DELETING))
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    told = msgspec.structs.replace(GOING, status=msgspec.structs.replace(GOING.status, conditions=step.conditions))
    known = msgspec.structs.replace(known, claims=(told,))
    waiting = plan(known)
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == pytest.approx(1800 - 30)
    late = plan(msgspec.structs.replace(known, now=NOW + timedelta(minutes=30)))
    assert isinstance(late, steps.PatchStatus)
    assert late.overdue == "deleting"


def test_a_try_that_is_due_but_held_up_shortens_no_wait() -> None:
    """A DELETE that is due waits for a look that was not answered: until the next one, and does not spin."""
    unread = failed("retryable", delay=30.0, age=10.0)
    lost = failed("retryable", delay=5.0, age=6.0, unanswered=True)
    known = facts(claims=(GOING,), instance=instance(), delete_failed=lost, read_failed=unread)
    told = plan(known)
    assert isinstance(told, steps.PatchStatus)
    said = msgspec.structs.replace(GOING, status=msgspec.structs.replace(GOING.status, conditions=told.conditions))
    waiting = plan(msgspec.structs.replace(known, claims=(said,)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == 20.0
