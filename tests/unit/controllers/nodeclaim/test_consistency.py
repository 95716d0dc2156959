"""Agent pools that other clients changed: the message; the plan stays the same."""

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
from tests.unit.controllers.planner.tables import ready_claim

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


@pytest.mark.parametrize(("case", "fields", "stated"), CHANGED, ids=[row[0] for row in CHANGED])
def test_changes_are_reported_and_not_reverted(case: str, fields: dict, stated: str) -> None:
    """A Warning about the claim has the change and the command."""
    pool = instance(**{"state": InstanceState.RUNNING, **fields})
    known = facts(claims=(ready_claim(),), instance=pool, nodes=(node(),))
    assert stated in changes(known, ready_claim()), case
    assert [one.event.reason for one in notices(known)] == (["PoolChanged"] if stated else [])
    assert isinstance(plan(known), steps.Wait)


def test_changes_to_the_pool_of_a_deleting_claim_are_not_reported() -> None:
    """The pool is deleted with all its machines."""
    going = claim(deleting=True)
    assert notices(facts(claims=(going,), instance=instance(count=3))) == ()


def test_the_node_of_a_pool_scaled_to_zero_is_released() -> None:
    """The claim is kept."""
    known = {
        "claims": (ready_claim(),),
        "nodes": (node(deleting=True),),
        "candidate": Candidate(cause="node-deleted", since=-100.0),
    }
    assert isinstance(plan(facts(instance=instance(count=0), **known)), steps.ReleaseFinalizer)
    assert scaled_to_zero(instance(count=0))
    assert not scaled_to_zero(instance(count=0, priority="Spot"))
    assert not isinstance(plan(facts(instance=instance(), **known)), steps.ReleaseFinalizer)


def test_a_node_without_labels_belongs_to_its_owner() -> None:
    """The label takes precedence; without it the owner reference counts."""
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
