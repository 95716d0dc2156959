"""Evicted spot VMs: proof, signals, and the circuit breaker."""

from typing import Any

import msgspec
import pytest

from cloudprovider.interface import Cluster, InstanceState
from controllers.garbagecollection import candidates
from controllers.model import steps
from controllers.model.facts import Candidate, ClusterCounts, Facts
from controllers.nodeclaim.lifecycle import initialization
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.meta import Taint
from provisioner.api.node import Node, NodeCondition
from tests.unit.builders import COLUMNS, NODE, UP, claim, facts, instance, node

SPOT: dict[str, Any] = {"priority": "Spot"}
READ = {"claim_read_age": 1.0, "pool_read_age": 1.0, "cluster_age": 1.0}


def evicted(**fields: Any) -> Facts:
    """A claim whose spot pool has had no machine for six seconds, with an unready Node and fresh reads."""
    made = claim(up=UP, node_name=NODE, more_labels={**COLUMNS, labels.CAPACITY_TYPE: "spot"})
    known = {
        "claims": (made,),
        "claim_read": made,
        "nodes": (node(ready="Unknown"),),
        "instance": instance(**SPOT, count=0),
        "candidate": Candidate(cause="spot-evicted", since=-6.0),
        **READ,
    }
    return facts(**known | fields)


UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")


def signed(**how: Any) -> Node:
    """An unready Node with this taint, besides that of Kubernetes, or with this condition."""
    made = node(ready=str(how.pop("ready", "Unknown")))
    if "taint" in how:
        return node(ready="Unknown", taints=(UNREACHABLE, Taint(key=str(how["taint"]), effect="NoSchedule")))
    reported = NodeCondition(**how)
    status = msgspec.structs.replace(made.status, conditions=(*made.status.conditions, reported))
    return msgspec.structs.replace(made, status=status)


def stated(f: Facts) -> tuple[str, str]:
    """The Initialized condition of the next write."""
    step = plan(f)
    assert isinstance(step, steps.PatchStatus), step
    found = next(c for c in step.conditions if c.type == INITIALIZED)
    return found.status, found.reason


def test_the_claim_of_a_spot_pool_without_a_machine_is_deleted() -> None:
    """The circuit breaker does not restrict it."""
    for counts in (ClusterCounts(), ClusterCounts(restricted=True, candidates=9)):
        step = plan(evicted(counts=counts))
        assert isinstance(step, steps.DeleteClaim)
        assert (step.cause, step.event.reason) == ("spot-evicted", "SpotEvicted")


@pytest.mark.parametrize(
    "fields",
    [
        {"instance": instance(count=0)},
        {"instance": instance(**SPOT, count=1)},
        {"instance": instance(**SPOT, count=0, raw_state="Scaling")},
        {"instance": instance(**SPOT, count=0, power_state="Stopped")},
        {"instance": instance(InstanceState.CREATING, **SPOT, count=0, raw_state="Creating")},
        {"instance": instance(**SPOT, count=0, uid="another")},
        {"inventory_synced": False},
    ],
    ids=["on demand", "has one", "scaling", "stopped", "creating", "not its own", "never listed"],
)
def test_other_pools_are_not_evicted(fields: dict[str, Any]) -> None:
    """They have a machine, are not spot, or are being changed by AKS."""
    assert candidates.candidate_cause(evicted(**fields)) != "spot-evicted"


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"candidate": Candidate(cause="spot-evicted", since=-1.0)}, steps.PatchStatus),
        ({"nodes": (node(),)}, steps.PatchStatus),
        ({"claim_read_age": 60.0}, steps.LookUpClaim),
        ({"pool_read_age": 60.0}, steps.LookUpPool),
        ({"cluster_age": 60.0}, steps.LookUpCluster),
        ({"cluster": Cluster(running=False)}, steps.PatchStatus),
        ({"inventory_age": 600.0}, steps.PatchStatus),
    ],
    ids=["minimum age", "a Node that is Ready", "the claim", "the pool", "the cluster", "stopped", "old list"],
)
def test_what_an_eviction_waits_for(fields: dict[str, Any], step: type[steps.Step]) -> None:
    """Every condition of an inferred removal except the circuit breaker; the eviction is reported meanwhile."""
    assert isinstance(plan(evicted(**fields)), step)


@pytest.mark.parametrize(
    ("unhealthy", "reason"),
    [
        (signed(type="PreemptionScheduled", status="True", reason="Preempt"), "SpotEvicted"),
        (signed(type="VMEventScheduled", status="True", reason="PreemptScheduled"), "SpotEvicted"),
        (signed(taint=labels.SHUTDOWN_TAINT), "SpotEvicted"),
        (signed(type="VMEventScheduled", status="True", reason="RebootScheduled"), "NodeNotReady"),
        (signed(type="PreemptionScheduled", status="False"), "NodeNotReady"),
    ],
    ids=["spot agent", "problem detector", "shut down", "another event", "over"],
)
def test_signals_on_the_node_only_set_the_reason(unhealthy: Node, reason: str) -> None:
    """Only the state of the pool, or a deletion of the Node, causes a removal."""
    known = evicted(nodes=(unhealthy,), instance=instance(**SPOT), candidate=None)
    assert stated(known) == ("False", reason)
    assert candidates.candidate_cause(known) is None
    assert stated(evicted(nodes=(unhealthy,), instance=instance(), candidate=None)) == ("False", "NodeNotReady")


def test_a_signal_on_a_ready_node_is_ignored() -> None:
    """The Node is usable until it is not Ready."""
    serving = signed(type="PreemptionScheduled", status="True", ready="True")
    known = evicted(nodes=(serving,), instance=instance(**SPOT), candidate=None)
    updates = initialization.condition(known, known.claims[0])
    assert updates is not None
    assert updates.status == "True"
    assert candidates.candidate_cause(known) is None
