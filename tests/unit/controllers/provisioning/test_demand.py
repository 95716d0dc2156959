"""Which pods of machines that go need a place now, as a table."""

from datetime import UTC, datetime

import msgspec
import pytest

from controllers.provisioning.demand import demand
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim, NodeClassReference
from tests.unit.controllers.disruption.fleet import D4, Fleet

KARPENTER = NodeClassReference(group="karpenter.azure.com", kind="AKSNodeClass", name="default")


def deleting(claim: NodeClaim) -> NodeClaim:
    gone = msgspec.structs.replace(claim.metadata, deletion_timestamp=datetime(2026, 3, 1, 12, tzinfo=UTC))
    return msgspec.structs.replace(claim, metadata=gone)


def of_karpenter(claim: NodeClaim) -> NodeClaim:
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, node_class_ref=KARPENTER))


def of_a_user(claim: NodeClaim) -> NodeClaim:
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, owner_references=()))


def relabelled(claim: NodeClaim) -> NodeClaim:
    known = {**claim.metadata.labels, labels.NODEPOOL: "other"}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, labels=known))


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda claim: claim, False),
        (deleting, True),
        # Karpenter buys a machine for the pods of its own.
        (lambda claim: of_karpenter(deleting(claim)), False),
        (lambda claim: of_a_user(deleting(claim)), False),
        (lambda claim: relabelled(deleting(claim)), False),
    ],
    ids=["that stays", "of a NodePool", "of Karpenter", "of a user", "that a user took out of its NodePool"],
)
def test_pods_of_a_machine(change: object, *, counts: bool) -> None:
    """Those of other machines become pending when they are evicted, and count then."""
    assert callable(change)
    fleet = Fleet().add("old", D4, [(3, 0)])
    found = demand(fleet.pods, fleet.nodes, [change(one) for one in fleet.claims])
    assert bool(found) == counts
