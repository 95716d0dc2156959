"""Evicted spot VMs: proof, signals, and the circuit breaker."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.interface import Cluster, InstanceState
from controllers.garbagecollection import candidates
from controllers.model import steps
from controllers.model.facts import Candidate, ClusterCounts, Facts
from controllers.nodeclaim.interruption import notice_on
from controllers.nodeclaim.lifecycle import initialization
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.meta import Taint
from provisioner.api.node import Node, NodeCondition
from tests.unit.builders import COLUMNS, NODE, NOW, UP, claim, facts, instance, node

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


def test_a_signal_without_a_message_on_a_ready_node_is_ignored() -> None:
    """The Node is usable until it is not Ready."""
    serving = signed(type="PreemptionScheduled", status="True", ready="True")
    known = evicted(nodes=(serving,), instance=instance(**SPOT), candidate=None)
    updates = initialization.condition(known, known.claims[0])
    assert updates is not None
    assert updates.status == "True"
    assert candidates.candidate_cause(known) is None


# Notices

URL = "For more information, see https://aka.ms/aks-spot-eviction. EventId: 40B7BD88-C56E-44E4-93F6-75CEDACE2869"
SINCE = NOW - timedelta(seconds=2)
AT = NOW + timedelta(seconds=28)


def stamp(at: datetime) -> str:
    return at.strftime("%a, %d %b %Y %H:%M:%S GMT")


def announced(message: str, *, kind: str = "PreemptionScheduled", status: str = "True", ready: str = "True") -> Node:
    reason = "SpotEvictionIncoming" if kind == "PreemptionScheduled" else kind
    return signed(type=kind, status=status, reason=reason, message=message, last_transition_time=SINCE, ready=ready)


SCHEDULED = f"Preempt Scheduled: {stamp(AT)}. {URL}"
NOTICES: list[tuple[str, Node, datetime | None]] = [
    ("scheduled", announced(SCHEDULED), AT),
    ("of all scheduled events", announced(SCHEDULED, kind="VMEventScheduled"), AT),
    ("short", announced(f"Preempt Scheduled: {stamp(NOW)}. {URL}"), NOW),
    ("of one digit", announced("Preempt Scheduled: Sun, 1 Mar 2026 12:10:05 GMT."), NOW + timedelta(seconds=5)),
    ("of another zone", announced("Preempt Scheduled: Sun, 01 Mar 2026 13:10:05 +0100."), NOW + timedelta(seconds=5)),
    ("white space", announced(f"  Preempt  Scheduled:\n{stamp(AT)}."), AT),
    ("started", announced(f"Preempt Started. {URL}"), SINCE),
    ("started, with a time", announced(f"Preempt Started: {stamp(AT)}. {URL}"), SINCE),
    ("without a time", announced(f"Preempt Scheduled. {URL}"), SINCE + timedelta(seconds=30)),
    ("with no time that can be read", announced(f"Preempt Scheduled: soon. {URL}"), SINCE + timedelta(seconds=30)),
    ("without a zone", announced("Preempt Scheduled: Sun, 01 Mar 2026 12:10:05."), SINCE + timedelta(seconds=30)),
    ("recommendation", announced(f"SpotRebalanceRecommendation Advisory: {stamp(AT)}. {URL}"), None),
    ("advisory", announced(f"Preempt Advisory: {stamp(AT)}. {URL}"), None),
    ("reboot", announced(f"Reboot Scheduled: {stamp(AT)}. {URL}", kind="VMEventScheduled"), None),
    ("inside another text", announced(f"No Preempt Scheduled: {stamp(AT)}. {URL}"), None),
    ("with another ending", announced(f"Preempt ScheduledLater: {stamp(AT)}. {URL}"), None),
    ("of another condition", announced(SCHEDULED, kind="MemoryPressure"), None),
    ("over", announced(SCHEDULED, status="False"), None),
    ("unknown", announced(SCHEDULED, status="Unknown"), None),
    ("without a message", announced(""), None),
    ("just outlived", announced(f"Preempt Scheduled: {stamp(NOW - timedelta(seconds=601))}. {URL}"), None),
    ("past", announced(f"Preempt Scheduled: {stamp(NOW - timedelta(seconds=599))}."), NOW - timedelta(seconds=599)),
    ("in year 99999", announced("Preempt Scheduled: Sun, 01 Mar 99999 12:10:05 GMT."), SINCE + timedelta(seconds=30)),
]


@pytest.mark.parametrize(("seen", "at"), [row[1:] for row in NOTICES], ids=[row[0] for row in NOTICES])
def test_notices(seen: Node, at: datetime | None) -> None:
    """Only the message of AKS's node problem detector tells an eviction from what evicts nothing."""
    found = notice_on(seen, NOW)
    assert (None if found is None else found.at) == at


def noticed(*nodes: Node, annotations: dict[str, str] | None = None, **fields: Any) -> Facts:
    """A claim whose spot machine is Ready and is to be evicted, with fresh reads."""
    known_labels = {**COLUMNS, labels.CAPACITY_TYPE: "spot"}
    made = claim(up=(*UP, "Ready"), node_name=NODE, more_labels=known_labels, annotations=annotations or {})
    found = nodes or (announced(SCHEDULED),)
    known: dict[str, Any] = {"claim_read": made, "claim_read_age": 1.0, "nodes_read": found, "nodes_read_age": 1.0}
    return facts(**{"claims": (made,), "nodes": found, "instance": instance(**SPOT), **known, **fields})


def limited(period: str) -> dict[str, Any]:
    """The claim has this termination grace period."""
    made = noticed().claims[0]
    spec = msgspec.structs.replace(made.spec, termination_grace_period=period)
    return {"claims": (msgspec.structs.replace(made, spec=spec),)}


EARLIER, LATER = "2026-03-01T12:10:05Z", "2026-03-01T13:00:00Z"


def test_the_deadline_of_the_drain_is_the_time_of_the_notice() -> None:
    """An earlier one is kept; then the claim is deleted, whatever the circuit breaker counts."""
    for known in ({}, {labels.TERMINATION_TIMESTAMP: LATER}, {labels.TERMINATION_TIMESTAMP: "soon"}):
        step = plan(noticed(annotations=known))
        assert isinstance(step, steps.PatchClaim), step
        assert step.annotations == {labels.TERMINATION_TIMESTAMP: "2026-03-01T12:10:28Z"}
    written = {labels.TERMINATION_TIMESTAMP: "2026-03-01T12:10:28Z"}
    deleted = (
        noticed(annotations=written),
        noticed(annotations={labels.TERMINATION_TIMESTAMP: EARLIER}),
        noticed(annotations=written, counts=ClusterCounts(restricted=True, candidates=9)),
        noticed(**limited("5s")),
        noticed(refused={"PatchClaim": "denied"}),
    )
    for known_facts in deleted:
        step = plan(known_facts)
        assert isinstance(step, steps.DeleteClaim), step
        assert (step.cause, step.event.reason) == ("spot-evicted", "SpotEvicted")
    assert isinstance(plan(noticed(**limited("1h"))), steps.PatchClaim)


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"claim_read_age": 60.0}, steps.LookUpClaim),
        ({"nodes_read_age": 60.0}, steps.LookUpNodes),
    ],
    ids=["the claim", "the Node"],
)
def test_a_notice_is_read_again(fields: dict[str, Any], step: type[steps.Step]) -> None:
    assert isinstance(plan(noticed(**fields)), step)


KEPT: dict[str, Facts] = {
    "on demand": noticed(instance=instance()),
    "another's pool": noticed(instance=instance(**SPOT, uid="another")),
    "no pool in the list": noticed(instance=None),
    "the Node was read without it": noticed(nodes_read=(node(),)),
    "another claim was read": noticed(claim_read=claim(uid="another")),
    "the claim is gone": noticed(claim_read=None),
    "one of two Nodes": noticed(announced(SCHEDULED), node(name=f"{NODE[:-1]}1")),
    "never listed": noticed(inventory_synced=False),
}


@pytest.mark.parametrize("case", KEPT)
def test_other_claims_are_kept(case: str) -> None:
    step = plan(KEPT[case])
    assert not isinstance(step, steps.DeleteClaim | steps.PatchClaim | steps.LookUpNodes), step
