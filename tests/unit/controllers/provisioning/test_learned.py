"""What Nodes of a node class offer replaces what is predicted for their instance type."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cloudprovider.cloud import InstanceType
from controllers.nodeclass.hash import spec_hash
from controllers.provisioning.learned import corrected, observed_types
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node, NodeStatus
from provisioner.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassReference
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec, ObservedType

CLASS = AgentPoolNodeClass(metadata=ObjectMeta(name="default", uid="class"))
REFERENCE = NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="default")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SIZE = "Standard_NC4as_T4_v3"


def machine(uid: str, cpu: str, *, age: float = 0.0, revision: str = "", **more: str) -> tuple[NodeClaim, Node]:
    """A NodeClaim and its Node with so much CPU; `more`: labels of the Node."""
    annotations = {labels.NODECLASS_HASH: revision or spec_hash(CLASS)}
    claim = NodeClaim(
        metadata=ObjectMeta(name=uid, uid=uid, annotations=annotations), spec=NodeClaimSpec(node_class_ref=REFERENCE)
    )
    found = {labels.INSTANCE_TYPE: SIZE, labels.CLAIM_UID: uid, labels.REGISTERED: "true", **more}
    node = Node(
        metadata=ObjectMeta(name=f"node-{uid}", labels=found, creation_timestamp=NOW - timedelta(seconds=age)),
        status=NodeStatus(allocatable={"cpu": cpu, "memory": "25Gi", "nvidia.com/gpu": "0"}),
    )
    return claim, node


def learned(*machines: tuple[NodeClaim, Node], known: tuple[ObservedType, ...] = ()) -> dict[str, dict[str, str]]:
    nodes = {claim.uid: node for claim, node in machines}
    found = observed_types(CLASS, known, nodes, [claim for claim, _ in machines], NOW)
    return {one.instance_type: dict(one.allocatable) for one in found}


def test_the_newest_node_counts() -> None:
    """Devices are not learned."""
    assert learned(machine("new", "3820m"), machine("old", "3860m", age=60.0)) == {
        SIZE: {"cpu": "3820m", "memory": "25Gi"}
    }


def test_a_claim_without_a_node_teaches_nothing() -> None:
    """Its machine is still being created."""
    claim, _ = machine("a", "3820m")
    assert observed_types(CLASS, (), {}, [claim], NOW) == ()


@pytest.mark.parametrize(
    "odd", [{"revision": "another"}, {"labels": {labels.REGISTERED: ""}}, {"labels": {labels.INSTANCE_TYPE: ""}}]
)
def test_nodes_that_teach_nothing(odd: dict[str, object]) -> None:
    """One of another revision of the node class, one that is not registered, and one of an unknown size."""
    more = odd.get("labels", {})
    assert isinstance(more, dict)
    assert learned(machine("a", "3820m", revision=str(odd.get("revision", "")), **more)) == {}


@pytest.mark.parametrize(
    ("before", "days", "counts"),
    [("3830m", 29, True), ("3830m", 30, False), ("3860m", 1, True), ("3860m", 2, False), ("", 1, True), ("", 2, False)],
)
def test_a_size_without_a_node_is_remembered(before: str, days: int, counts: bool) -> None:
    """For 30 days if two Nodes showed the same, else for 2 days, as long as the node class does not change."""
    known = ObservedType(
        instance_type=SIZE,
        allocatable={"cpu": "3820m"},
        before={"cpu": before} if before else {},
        revision=spec_hash(CLASS),
        node_created=NOW - timedelta(days=days),
    )
    assert learned(known=(known,)) == ({SIZE: {"cpu": "3820m"}} if counts else {})
    assert learned(known=(msgspec.structs.replace(known, revision="another"),)) == {}


@pytest.mark.parametrize(
    ("shown", "before", "counted"),
    [
        ("3820m", "", 3820),
        ("3820m", "3850m", 3820),
        ("3900m", "", 3900),
        ("8", "8", 3860),
        ("2", "", 3860),
        ("2", "3850m", 3850),
        ("1", "2", 2000),
        ("3850m", "2", 3850),
        ("many", "", 3860),
        ("2", "few", 3860),
    ],
)
def test_amounts_that_are_not_typical(shown: str, before: str, counted: int) -> None:
    """More than 5 % below the prediction, unless the Node before showed that too, or more than 5 % above it."""
    kind = InstanceType(
        name=SIZE,
        requirements={},
        capacity={"cpu": 4000},
        allocatable={"cpu": 3860, "nvidia.com/gpu": 1000},
        offerings=(),
    )
    earlier = {"cpu": before} if before else {}
    (found,) = corrected((kind,), [ObservedType(instance_type=SIZE, allocatable={"cpu": shown}, before=earlier)])
    assert found.allocatable == {"cpu": counted, "nvidia.com/gpu": 1000}


def test_the_node_before_the_newest_one() -> None:
    """It is kept beside the newest one, whichever order the NodeClaims have, and not replaced by the same Node."""
    machines = machine("odd", "2"), machine("old", "3850m", age=60.0)
    nodes, claims = {claim.uid: node for claim, node in machines}, [claim for claim, _ in machines]
    first = observed_types(CLASS, (), nodes, claims, NOW)
    (found,) = observed_types(CLASS, first, nodes, claims, NOW)
    assert (found.allocatable["cpu"], found.before["cpu"]) == ("2", "3850m")


def test_another_node_class() -> None:
    """Its hash differs, so that nothing is learned of machines with another OS disk."""
    larger = msgspec.structs.replace(CLASS, spec=NodeClassSpec(os_disk_size_gb=512))
    claim, node = machine("a", "3820m")
    assert observed_types(larger, (), {"a": node}, [claim], NOW) == ()
