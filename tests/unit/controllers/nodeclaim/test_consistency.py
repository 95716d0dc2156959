"""Pools that others changed: what is said, and what is not done about it."""

import msgspec
import pytest

from cloudprovider.interface import InstanceState
from controllers.model import steps
from controllers.model.facts import Candidate
from controllers.model.ownership import belongs, marked
from controllers.nodeclaim.consistency import changes, scaled_to_zero
from controllers.planner.events import notices
from controllers.planner.plan import plan
from provisioner.api.meta import OwnerReference
from provisioner.api.node import Node
from tests.unit.builders import KEY, UID, claim, facts, instance, node
from tests.unit.controllers.planner.test_plan import ready_claim

CHANGED = [
    ("nothing", {}, ""),
    ("more machines", {"count": 3}, "it has 3 machines instead of 1"),
    ("no machine", {"count": 0}, f"it has no machine: az aks nodepool scale --name {KEY} --node-count 1"),
    ("tags stripped", {"claim_uid": ""}, "its tags no longer name this claim"),
    ("tags of another", {"claim_uid": "uid-9"}, "its tags no longer name this claim"),
    ("labels stripped", {"label_uid": ""}, "its node labels no longer name this claim"),
    ("an evicted spot machine is another matter", {"count": 0, "priority": "Spot"}, ""),
    ("while AKS makes it", {"count": 0, "state": InstanceState.CREATING}, ""),
    ("somebody else's", {"count": 3, "claim_uid": "", "label_uid": ""}, ""),
]


@pytest.mark.parametrize(("told", "fields", "said"), CHANGED, ids=[row[0] for row in CHANGED])
def test_what_was_changed_is_said_once_and_nothing_is_done(told: str, fields: dict, said: str) -> None:
    """A Warning on the claim that names what and the command; the plan is what it was."""
    pool = instance(**{"state": InstanceState.RUNNING, **fields})
    known = facts(claims=(ready_claim(),), instance=pool, nodes=(node(),))
    assert said in changes(known, ready_claim()), told
    assert [one.event.reason for one in notices(known)] == (["PoolChanged"] if said else [])
    assert isinstance(plan(known), steps.Wait)


def test_a_deleting_claims_pool_is_not_spoken_of() -> None:
    """It goes with all that is in it."""
    going = claim(deleting=True)
    assert notices(facts(claims=(going,), instance=instance(count=3))) == ()


def test_the_node_of_an_emptied_pool_is_let_go() -> None:
    """Nobody deleted it but the one who scaled the pool: its claim must not follow."""
    known = {
        "claims": (ready_claim(),),
        "nodes": (node(deleting=True),),
        "candidate": Candidate(cause="node-deleted", age=100.0),
    }
    assert isinstance(plan(facts(instance=instance(count=0), **known)), steps.ReleaseFinalizer)
    assert scaled_to_zero(instance(count=0))
    assert not scaled_to_zero(instance(count=0, priority="Spot"))
    assert not isinstance(plan(facts(instance=instance(), **known)), steps.ReleaseFinalizer)


def test_a_node_without_labels_is_known_by_its_owner() -> None:
    """A label says more than an owner; without one, the owner that we wrote says whose the Node is."""
    owner = OwnerReference(api_version="karpenter.sh/v1", kind="NodeClaim", name=KEY, uid=UID)
    bare = node(uid_label="")
    bare.metadata.labels.clear()  # type: ignore[attr-defined]
    assert not belongs(bare, claim())
    assert not marked(bare)
    owned = owned_node(bare, owner)
    assert belongs(owned, claim())
    assert marked(owned)
    assert not belongs(owned, claim(uid="uid-9"))
    assert not belongs(owned_node(node(uid_label="uid-9"), owner), claim())


def owned_node(bare: Node, owner: OwnerReference) -> Node:
    return msgspec.structs.replace(bare, metadata=msgspec.structs.replace(bare.metadata, owner_references=(owner,)))
