"""A machine on its way offers what was counted on when it was bought."""

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from controllers.provisioning.existing import existing_node
from controllers.provisioning.purchases import Purchase
from controllers.provisioning.solver import model
from controllers.provisioning.solver.nodes import existing_host
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta, Taint
from provisioner.api.node import Node, NodeSpec, NodeStatus
from provisioner.api.nodeclaim import NodeClaim, NodeClaimStatus

SIZE = "Standard_NC4as_T4_v3"
PROMISE = Purchase(instance_type=SIZE, allocatable={"cpu": 3900}, daemons={"cpu": 100})
AGENT = model.PodSpec(requests={"cpu": 250})


def claim(size: str = "", text: str = msgspec.json.encode(PROMISE).decode()) -> NodeClaim:
    found = {labels.INSTANCE_TYPE: size} if size else {}
    return NodeClaim(metadata=ObjectMeta(name="a", uid="a", annotations={labels.BOUGHT_FOR: text}, labels=found))


def free(of: NodeClaim, node: Node | None = None) -> int:
    machine = existing_node(node, of, (), (), cloud=AksCloud())
    return existing_host(machine, (AGENT,), frozenset()).free.get("cpu", 0)


@pytest.mark.parametrize("size", ["", SIZE])
def test_a_machine_without_a_node(size: str) -> None:
    """What other Nodes have shown since concerns the next purchases, not the pods of this one."""
    assert free(claim(size)) == 3800


@pytest.mark.parametrize("of", [claim("Standard_NC8as_T4_v3"), claim(text="no JSON")])
def test_a_machine_of_which_nothing_was_counted_on(of: NodeClaim) -> None:
    """Another size was launched, or a person changed the annotation."""
    assert free(of) == 0


def test_a_node_shows_what_it_offers() -> None:
    """Its own allocatable and the daemon pods of now replace what was counted on."""
    node = Node(metadata=ObjectMeta(name="node"), status=NodeStatus(allocatable={"cpu": "3800m"}))
    assert free(claim(SIZE), node) == 3550


def test_an_initialized_node_is_read_without_its_claim() -> None:
    """What the NodeClaim was expected to have does not count any more, so that it need not be readable."""
    known = {labels.INITIALIZED: "true"}
    node = Node(metadata=ObjectMeta(name="node", labels=known), status=NodeStatus(allocatable={"cpu": "3800m"}))
    unreadable = msgspec.structs.replace(claim(SIZE), status=NodeClaimStatus(capacity={"cpu": "many"}))
    assert free(unreadable, node) == 3550
    with pytest.raises(ValueError, match="cpu: 'many' is not a quantity"):
        free(unreadable)


def test_a_soft_taint_buys_nothing() -> None:
    """kube-scheduler binds pending pods to a Node that others taint with PreferNoSchedule, as no other has room."""
    soft, hard = (Taint(key="example.com/x", effect=effect) for effect in ("PreferNoSchedule", "NoSchedule"))
    node = Node(metadata=ObjectMeta(name="node"), spec=NodeSpec(taints=(soft, hard)))
    assert existing_node(node, None, (), (), cloud=AksCloud()).taints == (hard,)
