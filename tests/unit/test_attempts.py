"""Plan tables: what a failed attempt has left, what goes first, and what is never taken for one."""

import pytest

from cloudprovider.interface import Failure, InstanceState
from controllers import steps
from controllers.facts import Suspicion
from controllers.garbage import suspect
from controllers.plan import plan

from .builders import COLUMNS, NODE, UP, claim, facts, instance, node
from .test_plan import GONE, ready_claim

CREATING, FAILED, DELETING = InstanceState.CREATING, InstanceState.FAILED, InstanceState.DELETING
BROKEN = Failure(reason="NodesNotReady", message="NodesNotReady: no Node", kind="rejected", scope="configuration")
POOL = instance(FAILED, failure=BROKEN)
SICK = node(ready="False", initialized=False)
GOING = node(ready="Unknown", initialized=False, deleting=True)
LAUNCHED = claim(up=("Launched", "Registered"), more_labels=COLUMNS, node_name=NODE)
TOLD = claim(down={"Launched": "NodesNotReady"}, more_labels=COLUMNS)

TABLE = [
    ("a pool that does not say why is asked", {"claims": (claim(),), "instance": instance(FAILED)}, steps.AskCause),
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


@pytest.mark.parametrize(("told", "known", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_a_failed_attempt_is_cleared_away_in_order(told: str, known: dict, expected: type) -> None:
    """Cause, pool, proof, Node, and only then the next PUT, which takes the same name."""
    assert isinstance(plan(facts(**known)), expected), told


def test_its_own_node_is_nobodys_deletion() -> None:
    """The Node of a failed attempt goes with its machine: that does not ask for the claim's end."""
    assert suspect(facts(claims=(TOLD,), instance=POOL, nodes=(GOING,))) is None
    assert suspect(facts(claims=(TOLD,), nodes=(GOING,), **GONE)) is None
    assert suspect(facts(claims=(LAUNCHED,), instance=instance(), nodes=(GOING,))) == "node-deleted"


def test_a_removal_knows_no_attempts() -> None:
    """A deleting claim takes its failed pool down by the usual way."""
    going = claim(down={"Launched": "NodesNotReady"}, deleting=True)
    known = facts(claims=(going,), instance=POOL, suspicion=Suspicion(cause="x", age=0.0))
    step = plan(known)
    assert isinstance(step, steps.DeleteInstance)
    assert step.cause == "asked"
