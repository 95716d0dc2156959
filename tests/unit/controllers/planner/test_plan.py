"""Tables of the planner: for each state of one machine, the step to take."""

from datetime import timedelta

import msgspec
import pytest

from cloudprovider.errors import Rejected
from cloudprovider.interface import Gpus, Offering
from controllers.garbagecollection import candidates
from controllers.model import steps
from controllers.model.crd_deletion import NODECLAIM_CRD
from controllers.model.facts import ClusterCounts, DeviceSight
from controllers.model.policy import Policy
from controllers.node.termination import termination
from controllers.planner.plan import explain, plan
from controllers.state.memory import remember_failure
from provisioner.api import labels
from provisioner.api.meta import Condition, ObjectMeta, Taint
from provisioner.api.nodeclaim import NodeClassReference
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassStatus
from tests.unit.builders import (
    BORN,
    COLUMNS,
    KEY,
    NODE,
    NOW,
    PROVIDER_ID,
    SIZE,
    UP,
    after,
    claim,
    facts,
    instance,
    node,
    offer,
    written,
)
from tests.unit.controllers.node.drains import GOING, cordoned

from .tables import (
    ALONE,
    CREATING,
    DELETING,
    DELETING_TABLE,
    FAILED,
    GARBAGE_TABLE,
    GONE,
    LIVE_TABLE,
    MISSING_POOL_TABLE,
    QUOTA,
    READ,
    UNINITIALIZED,
    conditions,
    failed,
    launching,
    ready_claim,
)


@pytest.mark.parametrize(("case", "known", "expected"), LIVE_TABLE, ids=[row[0] for row in LIVE_TABLE])
def test_live_claims(case: str, known: dict, expected: type) -> None:
    """Each state of a live claim has one next step."""
    assert isinstance(plan(facts(**known)), expected), case


@pytest.mark.parametrize(("case", "known", "expected"), DELETING_TABLE, ids=[row[0] for row in DELETING_TABLE])
def test_deleting_claims(case: str, known: dict, expected: type) -> None:
    """A deleting claim is removed in the order instance, Node, claim."""
    if known.get("nodes") == ("cordoned",):
        known = {**known, "nodes": (cordoned(),)}
    assert isinstance(plan(facts(**known)), expected), case


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


@pytest.mark.parametrize(("case", "known", "expected"), MISSING_POOL_TABLE, ids=[row[0] for row in MISSING_POOL_TABLE])
def test_pool_deleted_during_creation(case: str, known: dict, expected: type) -> None:
    """A pool that another client deletes during its creation is not created again; its claim is deleted."""
    assert isinstance(plan(facts(**known)), expected), case


def test_claim_of_a_missing_pool_is_a_candidate_only_after_proof() -> None:
    """Lists lag after a restart: claims whose pools they do not show yet must not trip the circuit breaker."""
    assert candidates.candidate_cause(facts(claims=(launching(),))) is None
    assert candidates.candidate_cause(facts(claims=(launching(),), **GONE)) == "missing-pool"


def test_claim_that_states_the_proof_is_a_candidate() -> None:
    """A new leader, and `gpu-provisioner gc`, count the claims whose pools a former leader proved to be gone."""
    assert candidates.candidate_cause(facts(claims=(launching("PoolDeleted"),))) == "missing-pool"
    assert candidates.candidate_cause(facts(claims=(launching("PoolDeleted"),), instance=instance(DELETING))) is None


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


def test_rejected_claim_is_retried_after_an_edit_of_its_node_class() -> None:
    """Also if the edit restores the spec with which the claim was created: its hash is then that of the claim."""
    at_generation = [
        AgentPoolNodeClass(
            metadata=ObjectMeta(name="gpu", uid="c1", generation=generation),
            status=NodeClassStatus(
                conditions=(
                    Condition(type="Ready", status="True", last_transition_time=NOW, observed_generation=generation),
                )
            ),
        )
        for generation in (2, 3)
    ]
    requested = claim(down={"Launched": "NodeClassContradictsOffering"})
    reference = NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="gpu")
    requested = msgspec.structs.replace(
        requested, spec=msgspec.structs.replace(requested.spec, node_class_ref=reference)
    )
    refusal = Rejected("NodeClassContradictsOffering", "no", final=True)
    memory = remember_failure(None, refusal, now=0.0, claim=requested, node_class=at_generation[0])
    for node_class, expected in zip(at_generation, (steps.Wait, steps.CreateInstance), strict=True):
        known = facts(
            claims=(requested,),
            node_class=node_class,
            node_class_known=True,
            create_failed=memory,
            loop_now=1.0,
            refused={"PatchStatus": "Invalid: no"},
            **READ,
        )
        assert isinstance(plan(known), expected), node_class.metadata.generation


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
