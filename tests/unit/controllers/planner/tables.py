"""The tables of facts and the step that is planned for them."""

import math
from typing import Any

import msgspec

from cloudprovider.interface import Cluster, Failure, InstanceState
from controllers.model import steps
from controllers.model.conditions import ConditionUpdate
from controllers.model.crd_deletion import NODECLAIM_CRD
from controllers.model.facts import Candidate, ClusterCounts, Facts
from controllers.model.failures import CloudFailure
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.causes import Cause
from provisioner.api.conditions import ConditionSet
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import BORN, COLUMNS, NODE, PROVIDER_ID, UID, UP, claim, instance, node, offer
from tests.unit.controllers.node.drains import GOING, drained, pod

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
        "also if a LIST proved the absence while a GET waits for its retry",
        {"claims": (GOING,), "nodes": (node(deleting=True),), "read_failed": failed("retryable"), **GONE},
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
        "one that was not registered is drained as well",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(finalizers=(), registered=False),)},
        steps.PatchNode,
    ),
    (
        "unless it is not Ready",
        {"claims": (GOING,), "instance": instance(), "nodes": (node(finalizers=(), registered=False, ready="False"),)},
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


def conditions(known: Facts) -> dict[str, tuple[str, str, str]]:
    step = plan(known)
    assert isinstance(step, steps.PatchStatus), step
    return {c.type: (c.status, c.reason, c.message) for c in step.conditions}


LATE = ConditionUpdate(
    status="False", reason="AwaitingVolumeDetachment", message="waits", ending="; overdue: x", overdue="detaching"
)
