"""Plan tables of the cleanup after a failed launch."""

import pytest

from cloudprovider.interface import Failure, Gpus, InstanceState
from controllers.garbagecollection.candidates import candidate_cause
from controllers.model import steps
from controllers.model.facts import Candidate
from controllers.model.policy import Policy
from controllers.nodeclaim.lifecycle.launch_failure import failed_launch_remains
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from tests.unit.builders import COLUMNS, NODE, UP, claim, facts, instance, node
from tests.unit.controllers.planner.tables import GONE, ready_claim

CREATING, FAILED, DELETING = InstanceState.CREATING, InstanceState.FAILED, InstanceState.DELETING
BROKEN = Failure(reason="NodesNotReady", message="NodesNotReady: no Node", kind="rejected", scope="configuration")
POOL = instance(FAILED, failure=BROKEN)
SICK = node(ready="False", initialized=False)
GOING = node(ready="Unknown", initialized=False, deleting=True)
LAUNCHED = claim(up=("Launched", "Registered"), more_labels=COLUMNS, node_name=NODE)
TOLD = claim(down={"Launched": "NodesNotReady"}, more_labels=COLUMNS)
# A Ready Node whose GPUs have not come, and the same with no pod on it and none to come.
ONE = Gpus(resource="nvidia.com/gpu", count=1)
BARE = node(gpus="0", initialized=False)
EMPTY = node(
    gpus="0",
    initialized=False,
    taints=(Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule"),),
    more_labels={labels.EXCLUDE_BALANCERS: "karpenter"},
)
# It was registered five minutes ago.
OVER = Policy(initialization_seconds=300.0)

TABLE = [
    ("the cause of a failed pool is read", {"claims": (claim(),), "instance": instance(FAILED)}, steps.AskCause),
    (
        "also when its Node is here",
        {"claims": (LAUNCHED,), "instance": instance(FAILED), "nodes": (SICK,)},
        steps.AskCause,
    ),
    (
        "its cause takes Launched back before anything goes",
        {"claims": (LAUNCHED,), "instance": POOL, "nodes": (SICK,)},
        steps.PatchStatus,
    ),
    ("then the pool goes", {"claims": (TOLD,), "instance": POOL, "nodes": (SICK,)}, steps.DeleteInstance),
    (
        "also when its Node is going already",
        {"claims": (TOLD,), "instance": POOL, "nodes": (GOING,)},
        steps.DeleteInstance,
    ),
    (
        "and when a Node of an earlier machine is there",
        {"claims": (TOLD,), "instance": POOL, "nodes": (node(uid_label="uid-0", ready="Unknown"),)},
        steps.DeleteInstance,
    ),
    (
        "the Node waits for it",
        {"claims": (TOLD,), "instance": instance(DELETING, raw_state="Deleting"), "nodes": (GOING,)},
        steps.Wait,
    ),
    (
        "and for the proof that it is gone",
        {"claims": (TOLD,), "nodes": (SICK,), "absence": "unknown"},
        steps.LookUpPool,
    ),
    ("then it goes", {"claims": (TOLD,), "nodes": (SICK,), **GONE}, steps.DeleteNode),
    ("then it is let go", {"claims": (TOLD,), "nodes": (GOING,), **GONE}, steps.ReleaseFinalizer),
    (
        "one that others keep is waited for",
        {"claims": (TOLD,), "nodes": (node(ready="Unknown", deleting=True, finalizers=("a/b",)),), **GONE},
        steps.Wait,
    ),
    ("then the next attempt begins", {"claims": (TOLD,), **GONE}, steps.LookUpClaim),
    (
        "a Ready machine is kept, whatever its pool says",
        {"claims": (ready_claim(),), "instance": POOL, "nodes": (node(),)},
        steps.Wait,
    ),
    (
        "the cause of one without its GPUs is read",
        {"claims": (LAUNCHED,), "instance": instance(FAILED), "nodes": (BARE,), "gpus": ONE},
        steps.AskCause,
    ),
    (
        "its machine is one like others",
        {"claims": (TOLD,), "instance": POOL, "nodes": (BARE,), "gpus": ONE},
        steps.PatchStatus,
    ),
    (
        "a Node that still says Ready when its pool is gone holds nothing up",
        {"claims": (TOLD,), "nodes": (EMPTY,), "gpus": ONE, **GONE},
        steps.DeleteNode,
    ),
    (
        "a Node that turns Ready while its failed pool is being deleted changes nothing",
        {"claims": (TOLD,), "instance": instance(DELETING, raw_state="Deleting"), "nodes": (node(),)},
        steps.Wait,
    ),
    (
        "nor does it when that pool is no longer listed",
        {"claims": (TOLD,), "nodes": (node(),), "absence": "unknown"},
        steps.LookUpPool,
    ),
    ("it goes after the proof", {"claims": (TOLD,), "nodes": (node(),), **GONE}, steps.DeleteNode),
    (
        "whose GPUs have come after all is used",
        {"claims": (TOLD,), "instance": POOL, "nodes": (node(initialized=False),), "gpus": ONE},
        steps.PatchNode,
    ),
    (
        "and so is one with some of them, which pods may use",
        {
            "claims": (TOLD,),
            "instance": POOL,
            "nodes": (node(gpus="7", initialized=False),),
            "gpus": Gpus(resource="nvidia.com/gpu", count=8),
        },
        steps.PatchStatus,
    ),
    (
        "one that was usable is kept when it is not Ready",
        {"claims": (claim(up=UP, more_labels=COLUMNS, node_name=NODE),), "instance": POOL, "nodes": (SICK,)},
        steps.PatchStatus,
    ),
    (
        "a claim that cannot take Launched back would be lost: its pool stays",
        {
            "claims": (LAUNCHED,),
            "instance": POOL,
            "nodes": (SICK,),
            "refused": {"PatchStatus": "no"},
            "refused_for": 9.0,
        },
        steps.Wait,
    ),
    (
        "a pool that bears no mark of ours any longer is left alone",
        {"claims": (TOLD,), "instance": instance(FAILED, uid="", failure=BROKEN), "nodes": (SICK,)},
        steps.PatchStatus,
    ),
]


@pytest.mark.parametrize(("case", "known", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_order_of_the_cleanup(case: str, known: dict, expected: type) -> None:
    """Cause, pool, proof, Node, and then the next PUT under the same name."""
    assert isinstance(plan(facts(**known)), expected), case


def stated(known: dict) -> dict[str, tuple[str, str, str]]:
    """The conditions of the next step, a status write."""
    step = plan(facts(**known))
    assert isinstance(step, steps.PatchStatus), step
    return {c.type: (c.status, c.reason, c.message) for c in step.conditions}


def test_a_ready_node_without_gpus_is_reported() -> None:
    """With the cause of the pool, whatever time passes; a machine that was usable shows its own."""
    known = {"claims": (LAUNCHED,), "instance": POOL, "nodes": (BARE,), "gpus": ONE}
    waiting = stated({**known, "policy": OVER})
    assert waiting["Launched"][0] == "True"
    assert waiting["Initialized"][:2] == ("Unknown", "ResourceNotRegistered")
    words = "nvidia.com/gpu: 0 of 1 allocatable; the pool failed (NodesNotReady: no Node)"
    assert waiting["Initialized"][2].startswith(words)


KEPT = [
    ("its GPUs are there", node(initialized=False), False),
    ("some GPUs are there", node(gpus="7", initialized=False), False),
    ("none is", BARE, False),
    ("it is not Ready", SICK, True),
]


@pytest.mark.parametrize(("case", "found", "remains"), KEPT, ids=[row[0] for row in KEPT])
def test_a_ready_node_of_a_failed_pool_is_kept(case: str, found: Node, *, remains: bool) -> None:
    """A deadline alone deletes nothing."""
    about = facts(claims=(LAUNCHED,), instance=POOL, nodes=(found,), gpus=ONE, policy=OVER)
    assert failed_launch_remains(about, LAUNCHED) is remains, case


def test_the_node_of_a_failed_attempt_does_not_delete_the_claim() -> None:
    """It is not a candidate for collection."""
    assert candidate_cause(facts(claims=(TOLD,), instance=POOL, nodes=(GOING,))) is None
    assert candidate_cause(facts(claims=(TOLD,), nodes=(GOING,), **GONE)) is None
    assert candidate_cause(facts(claims=(LAUNCHED,), instance=instance(), nodes=(GOING,))) == "node-deleted"


def test_a_deleting_claim_is_removed_as_usual() -> None:
    """Its failed pool is not cleaned up separately."""
    going = claim(down={"Launched": "NodesNotReady"}, deleting=True)
    known = facts(claims=(going,), instance=POOL, candidate=Candidate(cause="orphan-pool", since=0.0))
    step = plan(known)
    assert isinstance(step, steps.DeleteInstance)
    assert step.cause == "requested"
