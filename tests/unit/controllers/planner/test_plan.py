"""Tables of the planner: for each state of one machine, the step to take."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.errors import Rejected
from cloudprovider.interface import Cluster, Failure, Gpus, InstanceState, Offering
from controllers.garbagecollection import candidates
from controllers.model import steps
from controllers.model.crd_deletion import NODECLAIM_CRD
from controllers.model.facts import Candidate, ClusterCounts, DeviceSight, Facts
from controllers.model.failures import CloudFailure
from controllers.model.policy import Policy
from controllers.node.termination import termination
from controllers.planner.plan import explain, plan
from controllers.state.memory import remember_failure
from provisioner.api import labels
from provisioner.api.causes import Cause
from provisioner.api.conditions import ConditionSet
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import (
    BORN,
    COLUMNS,
    KEY,
    NODE,
    NOW,
    PROVIDER_ID,
    SIZE,
    UID,
    UP,
    after,
    claim,
    facts,
    instance,
    node,
    offer,
    written,
)
from tests.unit.controllers.node.drains import GOING, cordoned, drained, pod

CREATING, RUNNING = InstanceState.CREATING, InstanceState.RUNNING
DELETING, FAILED = InstanceState.DELETING, InstanceState.FAILED
GONE = {"absence": "absent", "proof_age": 5.0}
UNLISTED = CloudFailure(kind="retryable", reason="Throttled", message="Throttled: slow down; Retried automatically")
QUOTA = Failure(reason="QuotaExceeded", message="QuotaExceeded: no cores; ask for more", kind="no_capacity")
UNINITIALIZED = Taint(key=labels.UNINITIALIZED_TAINT, value="true", effect="NoSchedule")
READY_CLAIM = claim(up=UP, node_name=NODE, more_labels=COLUMNS)


def ready_claim(**fields: Any):
    """A claim whose status is complete for the default Node and pool."""
    made = claim(up=UP, node_name=NODE, more_labels=COLUMNS, **fields)
    status = msgspec.structs.replace(made.status, provider_id=PROVIDER_ID)
    return msgspec.structs.replace(made, status=status)


def failed(
    kind: str = "no_capacity", *, delay: float | None = 30.0, age: float = 1.0, uncertain: bool = False, **more: Any
) -> CloudFailure:
    return CloudFailure(
        kind=kind,
        reason="QuotaExceeded",
        message="no cores",
        times=1,
        at=-age,
        delay=delay,
        uncertain=uncertain,
        for_uid=UID,
        **more,
    )


def unreadable(made: NodeClaim, *fields: str) -> NodeClaim:
    """The claim with fields that could not be decoded."""
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, unreadable=fields))


# A fresh read of the claim that equals the cache.
READ = {"claim_read": claim(), "claim_read_age": 1.0}

LIVE_TABLE = [
    ("a new claim gets our finalizer first", {"claims": (claim(finalizers=()),)}, steps.AddFinalizer),
    ("nothing is launched before the pools are listed", {"claims": (claim(),), "inventory_synced": False}, steps.Wait),
    (
        "a failed list of pools is reported",
        {"claims": (claim(),), "inventory_synced": False, "list_failed": UNLISTED},
        steps.PatchStatus,
    ),
    (
        "a Node that becomes NotReady is reported without a list",
        {"claims": (READY_CLAIM,), "nodes": (node(ready="False"),), "inventory_synced": False},
        steps.PatchStatus,
    ),
    (
        "an existing condition is kept",
        {"claims": (claim(up=("Launched",)),), "inventory_synced": False, "list_failed": UNLISTED},
        steps.Wait,
    ),
    ("the claim is read before the pool is created", {"claims": (claim(),)}, steps.LookUpClaim),
    ("then the pool is created", {"claims": (claim(),), **READ}, steps.CreateInstance),
    ("an old read does not count", {"claims": (claim(),), **READ, "claim_read_age": 11.0}, steps.LookUpClaim),
    (
        "a claim deleted meanwhile gets no pool",
        {"claims": (claim(),), **READ, "claim_read": claim(deleting=True)},
        steps.Wait,
    ),
    ("nor does a claim that no longer exists", {"claims": (claim(),), **READ, "claim_read": None}, steps.Wait),
    ("nor a claim with another UID", {"claims": (claim(),), **READ, "claim_read": claim(uid="uid-2")}, steps.Wait),
    (
        "nor a claim whose previous Node is still deleting",
        {"claims": (claim(),), "nodes": (node(deleting=True, finalizers=()),), **READ},
        steps.PatchStatus,
    ),
    (
        "nor a claim with a field that cannot be decoded, which is reported",
        {"claims": (unreadable(claim(), "spec.x: no"),), **READ},
        steps.PatchStatus,
    ),
    (
        "its status is not written if a part of that cannot be decoded",
        {"claims": (unreadable(claim(), "status.conditions[0]: no"),), **READ},
        steps.Wait,
    ),
    (
        "nor is its machine removed",
        {
            "claims": (unreadable(READY_CLAIM, "status.x: no"),),
            "candidate": Candidate(cause="missing-pool", since=-1e6),
        },
        steps.Wait,
    ),
    ("an accepted pool is reported", {"claims": (claim(),), "instance": instance(CREATING)}, steps.PatchStatus),
    (
        "a new Node is registered first",
        {"claims": (claim(),), "instance": instance(CREATING), "nodes": (node(registered=False, finalizers=()),)},
        steps.PatchNode,
    ),
    (
        "then the claim gets its labels",
        {"claims": (claim(),), "instance": instance(CREATING), "nodes": (node(initialized=False, ready="False"),)},
        steps.PatchClaim,
    ),
    (
        "but not before the node manager has set the zone",
        {
            "claims": (claim(),),
            "instance": instance(CREATING),
            "nodes": (node(initialized=False, ready="False", taints=(UNINITIALIZED,)),),
        },
        steps.PatchStatus,
    ),
    (
        "a new Node is reported once it has a providerID",
        {
            "claims": (claim(),),
            "instance": instance(CREATING),
            "nodes": (node(initialized=False, ready="False", taints=(UNINITIALIZED,), age_seconds=2.0),),
        },
        steps.Wait,
    ),
    (
        "a running pool is reported; the labels wait for its Node",
        {"claims": (claim(),), "instance": instance()},
        steps.PatchStatus,
    ),
    (
        "unless no Node appears",
        {"claims": (claim(up=("Launched",)),), "instance": instance()},
        steps.PatchClaim,
    ),
    (
        "an initialized Node is labelled before the condition is set",
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
        "a removed finalizer of the Node is restored",
        {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(finalizers=()),)},
        steps.PatchNode,
    ),
    (
        "a Node that becomes NotReady resets Initialized",
        {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(ready="Unknown"),)},
        steps.PatchStatus,
    ),
    (
        "a foreign pool of that name is never written to",
        {"claims": (claim(),), "instance": instance(uid="")},
        steps.PatchStatus,
    ),
    (
        "the pool of a previous claim is waited for",
        {"claims": (claim(),), "instance": instance(uid="uid-0")},
        steps.PatchStatus,
    ),
    (
        "no PUT while a Node of a previous pool exists",
        {"claims": (claim(),), "nodes": (node(uid_label="uid-0", ready="False"),)},
        steps.PatchStatus,
    ),
    (
        "no PUT while the cluster is stopped",
        {"claims": (claim(),), "cluster": Cluster(running=False, power_state="Stopped")},
        steps.PatchStatus,
    ),
    ("an unavailable offering is reported", {"claims": (claim(),), "offers": (offer(30.0),)}, steps.PatchStatus),
    (
        "and tried again after its back-off",
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
        "a rejected creation is reported",
        {"claims": (claim(),), "create_failed": failed("rejected", delay=300.0)},
        steps.PatchStatus,
    ),
    (
        "and retried after its delay",
        {"claims": (claim(down={"Launched": "BadRequest"}),), "create_failed": failed("rejected", age=31.0), **READ},
        steps.CreateInstance,
    ),
    (
        "after a PUT with an unknown outcome the pool is read first",
        {"claims": (claim(),), "create_failed": failed("retryable", age=6.0, delay=5.0, uncertain=True)},
        steps.LookUpPool,
    ),
    (
        "and the PUT repeated if there is no pool",
        {
            "claims": (claim(),),
            "create_failed": failed("retryable", age=6.0, delay=5.0, uncertain=True),
            "pool_read_age": 1.0,
            **READ,
        },
        steps.CreateInstance,
    ),
    (
        "the cause of a failed pool is reported first",
        {"claims": (claim(),), "instance": instance(FAILED, failure=QUOTA)},
        steps.PatchStatus,
    ),
    (
        "then the failed pool is deleted",
        {"claims": (claim(down={"Launched": "QuotaExceeded"}),), "instance": instance(FAILED, failure=QUOTA)},
        steps.DeleteInstance,
    ),
    (
        "a pool that failed after it was running is kept",
        {"claims": (ready_claim(),), "instance": instance(FAILED, failure=QUOTA), "nodes": (node(),)},
        steps.Wait,
    ),
    (
        "claims above the pool limit report their position",
        {"claims": (claim(),), "counts": ClusterCounts(pools=90, place=2, waiting=3)},
        steps.PatchStatus,
    ),
    ("nothing is decided before the caches are synced", {"claims": (claim(),), "kube_synced": False}, steps.Wait),
    (
        "a rejected status write does not block other steps",
        {
            "claims": (claim(),),
            "instance": instance(CREATING),
            "nodes": (node(registered=False, finalizers=()),),
            "refused": {"PatchStatus": "Invalid: no"},
        },
        steps.PatchNode,
    ),
]


@pytest.mark.parametrize(("case", "known", "expected"), LIVE_TABLE, ids=[row[0] for row in LIVE_TABLE])
def test_live_claims(case: str, known: dict, expected: type) -> None:
    """Each state of a live claim has one next step."""
    assert isinstance(plan(facts(**known)), expected), case


ALONE = claim(up=UP, deleting=True)

DELETING_TABLE = [
    (
        "a Node with our finalizer is deleted first",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(),)},
        steps.DeleteNode,
    ),
    (
        "then it is tainted",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(deleting=True),)},
        steps.PatchNode,
    ),
    (
        "then the instance is deleted",
        {"claims": (GOING,), "instance": instance(), "nodes": ("cordoned",), "drains": drained()},
        steps.DeleteInstance,
    ),
    (
        "but its pods are listed first",
        {"claims": (GOING,), "instance": instance(), "nodes": ("cordoned",)},
        steps.ReadDrain,
    ),
    (
        "and evicted",
        {"claims": (GOING,), "instance": instance(), "nodes": ("cordoned",), "drains": drained(pod())},
        steps.EvictPods,
    ),
    (
        "a pool being created is deleted at once",
        {"claims": (ALONE,), "instance": instance(CREATING)},
        steps.DeleteInstance,
    ),
    (
        "a rejected deletion is not retried before its delay",
        {"claims": (ALONE,), "instance": instance(CREATING), "delete_failed": failed("retryable", delay=5.0)},
        steps.PatchStatus,
    ),
    (
        "and retried after it",
        {"claims": (ALONE,), "instance": instance(CREATING), "delete_failed": failed("retryable", delay=5.0, age=6.0)},
        steps.DeleteInstance,
    ),
    (
        "after a deletion without an answer the pool is read first",
        {
            "claims": (ALONE,),
            "instance": instance(),
            "delete_failed": failed("retryable", delay=5.0, age=6.0, unanswered=True),
        },
        steps.LookUpPool,
    ),
    (
        "and deleted again if it still exists",
        {
            "claims": (ALONE,),
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
    (
        "and read by name once LISTs have failed for 30 s",
        {"claims": (GOING,), "instance": instance(DELETING), "inventory_age": 31.0, "list_failed": UNLISTED},
        steps.LookUpPool,
    ),
    (
        "and not while LISTs succeed",
        {"claims": (GOING,), "instance": instance(DELETING), "inventory_age": 89.0},
        steps.PatchStatus,
    ),
    (
        "at intervals",
        {"instance": instance(DELETING), "inventory_age": 301.0, "pool_read_age": 20.0},
        steps.Wait,
    ),
    (
        "also for the next claim of its name",
        {"claims": (claim(),), "instance": instance(DELETING, uid="other"), "inventory_age": 301.0},
        steps.LookUpPool,
    ),
    (
        "and without a claim",
        {"instance": instance(DELETING), "inventory_age": 301.0},
        steps.LookUpPool,
    ),
    ("a pool that is not listed is read by name", {"claims": (GOING,)}, steps.LookUpPool),
    (
        "an unsettled 404 proves nothing",
        {"claims": (GOING,), "absence": "unsettled", "settles_in": 40.0, "pool_read_age": 1.0},
        steps.Wait,
    ),
    (
        "after a settled 404 the finalizer of the Node is removed",
        {"claims": (GOING,), "nodes": (node(deleting=True),), **GONE},
        steps.ReleaseFinalizer,
    ),
    (
        "a Node that is not deleting yet is deleted",
        {"claims": (GOING,), "nodes": (node(finalizers=()),), **GONE},
        steps.DeleteNode,
    ),
    ("the Nodes are read again after the proof", {"claims": (GOING,), **GONE}, steps.LookUpNodes),
    (
        "unless the watch is about to deliver a later write to the Node",
        {"claims": (GOING,), "node_write_age": 1.0, **GONE},
        steps.Wait,
    ),
    ("not an earlier one", {"claims": (GOING,), "node_write_age": 6.0, **GONE}, steps.LookUpNodes),
    (
        "nor one that it lost",
        {"claims": (GOING,), "node_write_age": 11.0, **GONE, "proof_age": 12.0},
        steps.LookUpNodes,
    ),
    (
        "then the finalizer of the claim is removed",
        {"claims": (GOING,), "nodes_known_age": 1.0, **GONE},
        steps.ReleaseFinalizer,
    ),
    (
        "a foreign pool of its name is read, not deleted",
        {"claims": (GOING,), "instance": instance(uid="")},
        steps.LookUpPool,
    ),
    (
        "and does not block the claim",
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
        "a Node without our finalizer is drained, and never deleted while its pool exists",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(finalizers=()),)},
        steps.PatchNode,
    ),
    (
        "one that was not registered is not drained",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(finalizers=(), registered=False),)},
        steps.DeleteInstance,
    ),
    (
        "the pods of a Node that is gone are listed by its name",
        {"claims": (GOING,), "instance": instance()},
        steps.ReadDrain,
    ),
    (
        "a rejected status write never blocks the removal",
        {"claims": (GOING,), "instance": instance(DELETING), "refused": {"PatchStatus": "Invalid: no"}},
        steps.Wait,
    ),
    ("nothing is removed before the pools are listed", {"claims": (GOING,), "inventory_synced": False}, steps.Wait),
    (
        "a removal that cannot begin is reported",
        {"claims": (GOING,), "inventory_synced": False, "list_failed": UNLISTED},
        steps.PatchStatus,
    ),
]


@pytest.mark.parametrize(("case", "known", "expected"), DELETING_TABLE, ids=[row[0] for row in DELETING_TABLE])
def test_deleting_claims(case: str, known: dict, expected: type) -> None:
    """A deleting claim is removed in the order instance, Node, claim."""
    if known.get("nodes") == ("cordoned",):
        known = {**known, "nodes": (cordoned(),)}
    assert isinstance(plan(facts(**known)), expected), case


OLD = 1000.0


def candidate_seen(cause: Cause, **fields: Any) -> dict:
    return {"candidate": Candidate(cause=cause, since=-OLD), "claim_read_age": 1.0, "pool_read_age": 1.0, **fields}


DELETED_NODE = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(deleting=True),)}
GARBAGE_TABLE = [
    (
        "a pool without a claim is deleted after its minimum age and fresh reads",
        candidate_seen("orphan-pool", instance=instance()),
        steps.DeleteInstance,
    ),
    (
        "not before the minimum age",
        {**candidate_seen("orphan-pool", instance=instance()), "candidate": Candidate(cause="orphan-pool", since=-1.0)},
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
        "not if the fresh read shows the claim",
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
        "not while the state of the cluster is unknown",
        {**candidate_seen("orphan-pool", instance=instance()), "cluster": None},
        steps.Wait,
    ),
    (
        "not while AKS is changing the pool",
        candidate_seen("orphan-pool", instance=instance(raw_state="Upgrading")),
        steps.Wait,
    ),
    (
        "not while the circuit breaker is open",
        {**candidate_seen("orphan-pool", instance=instance()), "counts": ClusterCounts(restricted=True)},
        steps.Wait,
    ),
    (
        "a claim whose pool no longer exists is deleted",
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
        "the claim of a deleted Node is deleted",
        candidate_seen("node-deleted", claim_read=ready_claim(), **DELETED_NODE),
        steps.DeleteClaim,
    ),
    (
        "a Node deleted while the cluster is stopped is released, and its pool kept",
        {**candidate_seen("node-deleted", claim_read=ready_claim(), **DELETED_NODE), "cluster": Cluster(running=False)},
        steps.ReleaseFinalizer,
    ),
    (
        "and so is a Node whose pool AKS is upgrading",
        candidate_seen(
            "node-deleted",
            claims=(ready_claim(),),
            instance=instance(raw_state="Upgrading"),
            nodes=(node(deleting=True),),
        ),
        steps.ReleaseFinalizer,
    ),
    (
        "a claim that is deleted with a CRD is kept, however few there are",
        candidate_seen("crd-deleted", claims=(ALONE,), instance=instance(), deleted_with_crd=NODECLAIM_CRD),
        steps.Wait,
    ),
    (
        "until a user confirms its removal",
        candidate_seen(
            "crd-deleted",
            claims=(ALONE,),
            instance=instance(),
            deleted_with_crd=NODECLAIM_CRD,
            counts=ClusterCounts(restricted=True, confirmed=True),
        ),
        steps.DeleteInstance,
    ),
    (
        "a deleting Node without a machine is released",
        candidate_seen("leftover-node", nodes=(node(deleting=True, ready="Unknown"),), **GONE),
        steps.ReleaseFinalizer,
    ),
    (
        "a leftover Node is deleted once its pool is proven absent",
        candidate_seen("leftover-node", nodes=(node(ready="Unknown", finalizers=()),), **GONE),
        steps.DeleteNode,
    ),
    ("a foreign pool without a claim is ignored", {"instance": instance(uid="")}, steps.Forget),
    ("a key without objects is forgotten", {}, steps.Forget),
]


@pytest.mark.parametrize(("case", "known", "expected"), GARBAGE_TABLE, ids=[row[0] for row in GARBAGE_TABLE])
def test_inferred_removals(case: str, known: dict, expected: type) -> None:
    """An inferred removal needs a minimum age, fresh reads, and the circuit breaker."""
    step = plan(facts(**known))
    if expected is steps.Wait and isinstance(step, steps.PatchStatus):
        step = plan(facts(**known, refused={"PatchStatus": "Invalid: no"}))
    assert isinstance(step, expected), (case, step)


def test_the_gate_decides_about_a_removal_with_the_crd() -> None:
    """By its own cause, also after a user has confirmed it; it refuses what was not confirmed by itself."""
    known = next(row[1] for row in GARBAGE_TABLE if row[0] == "until a user confirms its removal")
    step = plan(facts(**known))
    assert isinstance(step, steps.DeleteInstance)
    assert step.cause == "crd-deleted"
    kept = termination.step(facts(**{**known, "counts": ClusterCounts()}), ALONE)
    assert isinstance(kept, steps.Wait)
    assert NODECLAIM_CRD in kept.why


def launching(reason: str = "Creating", **fields: Any):
    """A claim whose condition reports an accepted pool."""
    made = claim(**fields)
    conditions = ConditionSet.of(made, BORN).set("Launched", "Unknown", reason=reason, message="m", now=BORN)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=conditions.items))


MISSING_POOL_TABLE = [
    ("a missing pool is read", {"claims": (launching(),)}, steps.LookUpPool),
    (
        "an unsettled 404 is waited for, and nothing is created meanwhile",
        {"claims": (launching(),), "absence": "unsettled", "settles_in": 30.0, "pool_read_age": 1.0},
        steps.Wait,
    ),
    ("a proven absence is reported", {"claims": (launching(),), **GONE}, steps.PatchStatus),
    (
        "then the minimum age is waited for",
        {"claims": (launching("PoolDeleted"),), "candidate": Candidate(cause="missing-pool", since=-1.0), **GONE},
        steps.Wait,
    ),
    (
        "then the claim is deleted",
        candidate_seen("missing-pool", claims=(launching("PoolDeleted"),), claim_read=launching(), **GONE),
        steps.DeleteClaim,
    ),
    (
        "unless the circuit breaker is open",
        candidate_seen(
            "missing-pool", claims=(launching("PoolDeleted"),), counts=ClusterCounts(restricted=True), **GONE
        ),
        steps.Wait,
    ),
    (
        "a deletion by another client is reported at once",
        {"claims": (launching(),), "instance": instance(DELETING)},
        steps.PatchStatus,
    ),
    (
        "a failed pool that was removed is followed by a new attempt",
        {"claims": (claim(down={"Launched": "QuotaExceeded"}),), "create_failed": failed(age=31.0), **GONE, **READ},
        steps.CreateInstance,
    ),
    (
        "also if its cause could not be reported",
        {"claims": (launching(),), "refused": frozenset({"PatchStatus"}), **GONE, **READ},
        steps.CreateInstance,
    ),
]


@pytest.mark.parametrize(("case", "known", "expected"), MISSING_POOL_TABLE, ids=[row[0] for row in MISSING_POOL_TABLE])
def test_pool_deleted_during_creation(case: str, known: dict, expected: type) -> None:
    """A pool that another client deletes during its creation is not created again; its claim is deleted."""
    assert isinstance(plan(facts(**known)), expected), case


def test_claim_of_a_missing_pool_is_a_candidate_only_after_proof() -> None:
    """Lists lag after a restart: claims whose pools they do not show yet must not trip the circuit breaker."""
    assert candidates.candidate_cause(facts(claims=(launching(),))) is None
    assert candidates.candidate_cause(facts(claims=(launching(),), **GONE)) == "missing-pool"


def test_failed_read_of_a_missing_pool_is_reported() -> None:
    """Until its absence is proven it counts as accepted; the message with the failed read is stable."""
    unread = failed("retryable", delay=90.0)
    step = plan(facts(claims=(launching(),), read_failed=unread))
    assert isinstance(step, steps.PatchStatus)
    (reported,) = [c for c in step.conditions if c.type == "Launched"]
    assert (reported.status, reported.reason) == ("Unknown", "Creating")
    assert reported.message == f"agent pool {KEY} is no longer listed, and reading it failed: {unread.message}"
    status = msgspec.structs.replace(step.claim.status, conditions=step.conditions)
    reported_claim = msgspec.structs.replace(step.claim, status=status)
    assert isinstance(plan(facts(claims=(reported_claim,), read_failed=unread)), steps.Wait)
    assert isinstance(plan(facts(claims=(reported_claim,))), steps.LookUpPool)


def test_message_of_a_deleted_pool_is_stable() -> None:
    """From the first observation to the claim's deletion the message keeps its time."""
    step = plan(facts(claims=(launching(),), instance=instance(DELETING)))
    assert isinstance(step, steps.PatchStatus)
    (reported,) = [c for c in step.conditions if c.type == "Launched"]
    assert (reported.status, reported.reason) == ("Unknown", "PoolDeleted")
    assert "observed at 12:10:00Z" in reported.message
    status = msgspec.structs.replace(step.claim.status, conditions=step.conditions)
    reported_claim = msgspec.structs.replace(step.claim, status=status)
    later = facts(claims=(reported_claim,), now=NOW + timedelta(minutes=1), **GONE)
    assert isinstance(plan(later), steps.Wait)


def test_rejected_deletion_of_a_failed_pool_is_retried() -> None:
    """The wait ends when the deletion is due again."""
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
def test_message_of_a_rejected_deletion(within: float | None, says: str) -> None:
    """The code, the remedy and the time of the deletion, equal at every retry, with room for a deadline's suffix."""
    reported = set()
    for times, delay in enumerate((5.0, 10.0, 20.0, 30.0), start=1):
        refusal = failed("retryable", delay=delay, within=within)
        refusal = msgspec.structs.replace(
            refusal, times=times, message="OperationNotAllowed: " + "busy " * 60 + ". Do this"
        )
        known = facts(claims=(ALONE,), instance=instance(CREATING), delete_failed=refusal)
        reported.add(conditions(known)["InstanceTerminating"][2])
    (message,) = reported
    assert message.startswith("OperationNotAllowed: busy")
    assert " Do this; deletion due since 12:09:30Z" in message
    assert says in message
    assert len(message.encode()) <= 256 - len("; overdue: over 30 min")


def conditions(known: Facts) -> dict[str, tuple[str, str, str]]:
    step = plan(known)
    assert isinstance(step, steps.PatchStatus), step
    return {c.type: (c.status, c.reason, c.message) for c in step.conditions}


def test_launched_and_registered_are_written_together() -> None:
    """If a pool is running without a Node, one write sets Launched to True and Registered to NodeNotFound."""
    reported = plan(facts(claims=(claim(),), instance=instance()))
    assert isinstance(reported, steps.PatchStatus)
    assert [(c.type, c.reason) for c in reported.conditions if c.type in ("Launched", "Registered")] == [
        ("Registered", "NodeNotFound"),
        ("Launched", "Launched"),
    ]


@pytest.mark.parametrize(
    ("registered", "condition"),
    [(False, "Registered"), (True, "Initialized")],
    ids=["when it is to be registered", "when it is to be labelled initialized"],
)
def test_rejected_patch_of_the_node_is_reported(registered: bool, condition: str) -> None:
    """The condition has the message of the API server and the remedy."""
    stated = "Forbidden: nodes is forbidden: User cannot patch resource"
    born = node(registered=registered, initialized=False)
    claims = (claim(up=("Launched", "Registered") if registered else (), more_labels=COLUMNS),)
    reported = conditions(facts(claims=claims, instance=instance(), nodes=(born,), refused={"PatchNode": stated}))
    status, reason, message = reported[condition]
    assert (status, reason) == ("Unknown", "NodeUpdateRefused")
    assert message.startswith(f"{stated}: failed to patch Node {NODE}, created ")
    assert message.endswith("see kubectl auth can-i patch nodes")
    assert reported["Ready"][0] != "True"


def test_the_wait_for_the_provider_id_is_bounded() -> None:
    """Ten seconds after its creation the Node is reported without a providerID."""
    young = node(initialized=False, ready="False", taints=(UNINITIALIZED,), age_seconds=4.0)
    waiting = plan(facts(claims=(claim(more_labels=COLUMNS),), instance=instance(CREATING), nodes=(young,)))
    assert waiting == steps.Wait(after=6.0, why=f"waiting for the providerID of Node {NODE}")


def test_ready_and_node_name_are_written_together() -> None:
    """One write sets both, because KAITO considers a claim with nodeName but without Ready to be ready."""
    step = plan(facts(claims=(claim(more_labels=COLUMNS),), instance=instance(CREATING), nodes=(node(),)))
    assert isinstance(step, steps.PatchStatus)
    assert step.fields["nodeName"] == NODE
    assert [c.type for c in step.conditions][-1] == "Ready"
    assert {c.type: c.status for c in step.conditions} == dict.fromkeys((*UP, "Ready"), "True")


def test_missing_gpus_are_reported_with_counts() -> None:
    """The message has the resource, both counts and the remedy."""
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


@pytest.mark.parametrize(
    ("age_seconds", "reason", "recorded"),
    [(60.0, "NodeInitializing", []), (179.0, "NodeInitializing", []), (180.0, "NodeNotReady", ["NodeNotReady"])],
)
def test_a_new_node_has_its_usual_time_before_a_cause_is_reported(
    age_seconds: float, reason: str, recorded: list[str]
) -> None:
    """A Node that is not Ready is reported with its cause, and with an Event, only after the usual time of a start."""
    born = NOW - timedelta(seconds=age_seconds)
    young = node(ready="False", initialized=False)
    young = msgspec.structs.replace(young, metadata=msgspec.structs.replace(young.metadata, creation_timestamp=born))
    known = facts(
        claims=(claim(up=("Launched",), more_labels=COLUMNS, node_name=NODE),), instance=instance(), nodes=(young,)
    )
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    assert conditions(known)["Initialized"][:2] == ("Unknown", reason)
    assert [event.reason for event in step.events] == ["Registered", *recorded]


@pytest.mark.parametrize("by", ["annotation", "policy"])
def test_gpu_readiness_report_does_not_wait_for_gpus(by: str) -> None:
    """The annotation or the policy skips the check."""
    notes = {labels.GPU_READINESS: "report"} if by == "annotation" else {}
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS, annotations=notes),),
        instance=instance(),
        nodes=(node(gpus="0"),),
        policy=Policy(gpu_readiness="report" if by == "policy" else "require"),
    )
    assert conditions(known)["Initialized"][0] == "True"


def test_size_without_data_does_not_wait_for_gpus() -> None:
    """The Event says that the number of GPUs is unknown."""
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS),),
        instance=instance(),
        nodes=(node(gpus="0"),),
        gpus=Gpus(known=False),
    )
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    assert any("not known" in event.message for event in step.events)


def test_initialized_and_ready_become_false_together() -> None:
    """One write sets both when the Node becomes NotReady."""
    known = facts(claims=(ready_claim(),), instance=instance(), nodes=(node(ready="Unknown"),))
    stated = conditions(known)
    assert stated["Initialized"][:2] == ("False", "NodeNotReady")
    assert stated["Ready"][:2] == ("False", "UnhealthyDependents")
    assert stated["Launched"][0] == stated["Registered"][0] == "True"


def test_nothing_is_written_before_the_taints_of_a_recovered_node_are_removed() -> None:
    """The node controller removes its taints with a delay, in which the condition is kept (K13)."""
    lost = ready_claim()
    status = claim(up=UP[:2], down={"Initialized": "NodeNotReady"}, node_name=NODE).status
    lost = msgspec.structs.replace(lost, status=msgspec.structs.replace(status, provider_id=PROVIDER_ID))
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
    """A restart of the device plugin does not reset Initialized."""
    lost = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(gpus="0"),)}
    waiting = plan(facts(**lost, gpu_short_since=-100.0))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == pytest.approx(260.0)
    assert conditions(facts(**lost, gpu_short_since=-361.0))["Initialized"][:2] == ("False", "GPUUnavailable")


def test_a_number_from_before_a_restart_opens_nothing() -> None:
    """A lost Node that returns keeps its condition for up to 30 s; that of a new one names what it waits for."""
    seen = DeviceSight(node_uid=node().uid, restarted_at=-4.0)
    status = claim(up=UP[:2], down={"Initialized": "NodeNotReady"}, node_name=NODE).status
    lost = msgspec.structs.replace(ready_claim(), status=msgspec.structs.replace(status, provider_id=PROVIDER_ID))
    waiting = plan(facts(claims=(lost,), instance=instance(), nodes=(node(),), devices=seen))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == pytest.approx(26.0)
    new = claim(up=UP[:2], more_labels=COLUMNS)
    known = facts(claims=(new,), instance=instance(), nodes=(node(initialized=False),), devices=seen)
    stated = conditions(known)["Initialized"]
    assert stated[:2] == ("Unknown", "ResourceNotRegistered")
    assert stated[2].startswith("nvidia.com/gpu: 1 of 1 allocatable; the kubelet of Node ")


@pytest.mark.parametrize(
    ("gpus", "reason", "lost"),
    [("0", "ResourceNotRegistered", "GPUUnavailable"), ("7", "GPUCountMismatch", "GPUUnavailable")],
)
def test_some_gpus_have_another_reason_than_none(gpus: str, reason: str, lost: str) -> None:
    """A new Node with some of its GPUs points at a GPU, one with none at the device plugin; a loss has one reason."""
    eight = {"instance": instance(), "nodes": (node(gpus=gpus),), "gpus": Gpus(resource="nvidia.com/gpu", count=8)}
    new = facts(claims=(claim(up=UP[:2], more_labels=COLUMNS),), **eight)
    assert conditions(new)["Initialized"][:2] == ("Unknown", reason)
    used = conditions(facts(claims=(ready_claim(),), gpu_short_since=-361.0, **eight))
    assert used["Initialized"][:2] == ("False", lost)
    assert used["Initialized"][2].startswith(f"nvidia.com/gpu: {gpus} of 8 allocatable; ")
    assert used["Ready"][0] == "False"


@pytest.mark.parametrize(("word", "status"), [("rebooting", "True"), ("success", "False"), ("failed", "False")])
def test_a_mig_manager_at_work_holds_a_loss(word: str, status: str) -> None:
    """GPUs that it removes for a new partitioning are no loss for 15 min; what failed is named."""
    config = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": word}
    gone = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(gpus="0", more_labels=config),)}
    seen = DeviceSight(node_uid=node().uid, mig_since=(NOW, -361.0))
    step = plan(facts(**gone, gpu_short_since=-361.0, devices=seen))
    if status == "True":
        assert isinstance(step, steps.Wait)
        assert step.after == pytest.approx(539.0)
        return
    stated = conditions(facts(**gone, gpu_short_since=-361.0, devices=seen))["Initialized"]
    assert stated[:2] == ("False", "GPUUnavailable")
    assert ("the MIG manager failed to apply all-1g.10gb" in stated[2]) is (word == "failed")


def test_startup_taint_holds_initialization() -> None:
    """The message has the startup taint."""
    taint = Taint(key="gkm.io/cache-not-ready", effect="NoSchedule")
    known = facts(
        claims=(claim(up=("Launched", "Registered"), more_labels=COLUMNS, startup_taints=(taint,)),),
        instance=instance(),
        nodes=(node(taints=(taint,), initialized=False),),
    )
    assert conditions(known)["Initialized"][1] == "StartupTaintsExist"
    assert 'StartupTaint "gkm.io/cache-not-ready:NoSchedule" still exists' in conditions(known)["Initialized"][2]


def test_final_rejection_is_not_retried() -> None:
    """A validation error in an immutable spec is never retried."""
    reported = claim(down={"Launched": "QuotaExceeded"})
    known = facts(claims=(reported,), create_failed=failed("rejected", delay=None))
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    again = plan(
        facts(claims=(reported,), create_failed=failed("rejected", delay=None), refused={"PatchStatus": "Invalid: no"})
    )
    assert isinstance(again, steps.Wait)


def test_final_rejection_has_no_deadline() -> None:
    """A failure that only a user can resolve is not reported as overdue."""
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


def test_rejected_claim_is_retried_after_a_change_of_its_labels() -> None:
    """The spec is immutable, labels and annotations are not."""
    refused = claim(more_labels={"agentpool": "x"}, down={"Launched": "LabelRefused"})
    memory = remember_failure(None, Rejected("LabelRefused", "no", final=True), now=0.0, claim=refused)
    for requested, expected in (
        (refused, steps.Wait),
        (claim(down={"Launched": "LabelRefused"}), steps.CreateInstance),
    ):
        known = facts(
            claims=(requested,), create_failed=memory, loop_now=1.0, refused={"PatchStatus": "Invalid: no"}, **READ
        )
        assert isinstance(plan(known), expected)


def test_deadline_is_reported_once_and_deletes_nothing() -> None:
    """An overdue creation causes one Event and one count; the pool is kept."""
    late = facts(claims=(claim(),), instance=instance(CREATING), now=BORN + timedelta(minutes=46))
    status, record = written(late)
    assert isinstance(record, steps.PatchClaim)
    assert record.overdue == ("creating",)
    assert [(event.type, event.message) for event in record.events] == [("Warning", conditions(late)["Launched"][2])]
    reported = after(claim(), status, record)
    assert isinstance(plan(msgspec.structs.replace(late, claims=(reported,))), steps.Wait)
    running = msgspec.structs.replace(late, claims=(reported,), instance=instance())
    _, ended = written(running)
    assert isinstance(ended, steps.PatchClaim)
    assert (ended.annotations, ended.overdue) == ({labels.REPORTED: None}, ())


def test_deadline_is_reported_once_although_the_message_changes() -> None:
    """The position in the queue may change after the deadline, without another Event or count."""
    waiting = {"claims": (claim(),), "now": BORN + timedelta(minutes=6)}
    status, record = written(facts(**waiting, counts=ClusterCounts(pools=90, place=2, waiting=3)))
    assert isinstance(record, steps.PatchClaim)
    assert (record.overdue, len(record.events)) == (("launch",), 1)
    reported = after(claim(), status, record)
    known = facts(**{**waiting, "claims": (reported,)}, counts=ClusterCounts(pools=90, place=1, waiting=2))
    again, waits = written(known)
    assert isinstance(again, steps.PatchStatus)
    assert isinstance(waits, steps.Wait)
    assert again.events == ()
    assert "position 1 of 2 in the queue" in {c.type: c.message for c in again.conditions}["Launched"]


def test_exhaustion_has_the_phrase_of_kaito() -> None:
    """The cause, then the phrase of K10, which is absent while another offering is available."""
    rests = (offer(30.0, failed_age=0.5), offer(90.0, size="Standard_B"))
    reported = conditions(facts(claims=(claim(),), offers=rests))["Launched"]
    phrase = "all requested instance types were unavailable during launch"
    assert reported == ("False", "QuotaExceeded", f"no cores for {SIZE}; {phrase}; overdue: over 5 min")
    untold = claim(down={"Launched": "Creating"})
    step = plan(facts(claims=(untold,), offers=(rests[0], offer(size="Standard_B")), **READ))
    assert isinstance(step, steps.CreateInstance)
    assert step.offering == Offering(size="Standard_B")
    assert step.event is not None
    assert step.event.message == f"creating Standard_B, choice 2 of 2; {SIZE}: QuotaExceeded"


def test_each_failed_attempt_is_reported() -> None:
    """The cause is written to the claim before the next offering is tried."""
    known = facts(claims=(claim(),), offers=(offer(30.0), offer(size="Standard_B")), create_failed=failed())
    reported = explain(known)
    assert reported is not None
    assert ("Launched", "False", "no cores") in [(c.type, c.status, c.message) for c in reported.conditions]
    assert [event.type for event in reported.events] == ["Warning"]


def test_message_of_an_unavailable_offering_is_stable() -> None:
    """Attempts of other claims change the cause, but not the message of a claim that has one."""
    reported = after(claim(), *written(facts(claims=(claim(),), offers=(offer(30.0),))))
    anew = msgspec.structs.replace(offer(60.0), message="other numbers")
    waiting = plan(facts(claims=(reported,), offers=(anew,)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == 60.0


def test_long_cause_is_truncated_for_the_deadline() -> None:
    """The message with the suffix has at most 256 bytes."""
    long = msgspec.structs.replace(failed("rejected", delay=600.0), message="x" * 256)
    known = facts(claims=(claim(),), create_failed=long, now=BORN + timedelta(minutes=6))
    assert conditions(known)["Launched"][2].endswith("x...; overdue: over 5 min")
    assert len(conditions(known)["Launched"][2]) == 256


def test_rejected_write_is_retried() -> None:
    """The wait ends when the write can be retried."""
    known = {"claims": (ready_claim(),), "instance": instance(), "nodes": (node(ready="Unknown"),)}
    refused = {"refused": {"PatchStatus": "Invalid: no"}, "refused_for": 55.0}
    waiting = plan(facts(**known, **refused))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == 55.0


def test_an_unchanged_claim_is_not_written_again() -> None:
    """After a status write the next plan waits."""
    known = facts(claims=(claim(),), instance=instance(CREATING))
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    reported = msgspec.structs.replace(
        claim(), status=msgspec.structs.replace(claim().status, conditions=step.conditions)
    )
    waiting = plan(msgspec.structs.replace(known, claims=(reported,), now=NOW + timedelta(seconds=7)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after is not None


def test_explaining_a_failure_is_one_status_write() -> None:
    """A failed creation sets the reason of Launched."""
    step = explain(facts(claims=(claim(),), create_failed=failed()))
    assert step is not None
    assert {c.type: c.reason for c in step.conditions}["Launched"] == "QuotaExceeded"


def test_overdue_deletion_is_reported() -> None:
    """An accepted deletion that does not finish is overdue at its deadline."""
    known = facts(claims=(GOING,), instance=instance(DELETING))
    step = plan(known)
    assert isinstance(step, steps.PatchStatus)
    reported = msgspec.structs.replace(GOING, status=msgspec.structs.replace(GOING.status, conditions=step.conditions))
    known = msgspec.structs.replace(known, claims=(reported,))
    waiting = plan(known)
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == pytest.approx(known.policy.stale_list_seconds)
    _, late = written(msgspec.structs.replace(known, now=NOW + timedelta(minutes=30)))
    assert isinstance(late, steps.PatchClaim)
    assert late.overdue == ("deleting",)


def test_due_deletion_waits_for_a_failed_read() -> None:
    """A DELETE that is due after a lost answer waits until the pool can be read."""
    unread = failed("retryable", delay=30.0, age=10.0)
    lost = failed("retryable", delay=5.0, age=6.0, unanswered=True)
    known = facts(claims=(ALONE,), instance=instance(), delete_failed=lost, read_failed=unread)
    reported = plan(known)
    assert isinstance(reported, steps.PatchStatus)
    stated = msgspec.structs.replace(
        ALONE, status=msgspec.structs.replace(ALONE.status, conditions=reported.conditions)
    )
    waiting = plan(msgspec.structs.replace(known, claims=(stated,)))
    assert isinstance(waiting, steps.Wait)
    assert waiting.after == 20.0
