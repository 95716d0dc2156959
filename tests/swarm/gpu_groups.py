"""Groups of machines with GPUs and of what strikes them: each is alone in its plan.

Repair needs an hour without another fault of the same machine, which few plans have by chance. Of the seed's plan only
the settings of the simulator and of the controller remain; a fault begins when the machines run.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from provisioner.api import labels

from .constraints import requires
from .objects import GPUS_LABEL, SHARED_CLAIM
from .plan import Claim, Event, NodePool, Plan, Stage, Workload

EIGHT, T4_8, T4_16 = "Standard_ND96isr_H100_v5", "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3"
A100_2, A100_4 = "Standard_NC48ads_A100_v4", "Standard_NC96ads_A100_v4"
RUNS_AT, LEAST_SECONDS = 1800.0, 5400.0
# Longer than repair waits for any fault of a machine without pods.
LASTS = (2400.0, 3300.0)
NOWHERE = {"nodeSelector": {"example.com/no": "such-label"}}
DRA_FAULTS = ("plugin-kept-away", "gpus-lost", "plugin-misconfigured", "gpus-never", "node-classes-unlisted")


def alone(plan: Plan, *node_pools: NodePool, workloads: tuple[Workload, ...] = (), **facts: Any) -> Plan:
    """Only these, with the seed's settings of the simulator and of the controller."""
    policy = {**plan.policy, "gpu_readiness": "require"}
    parts: dict[str, Any] = {"node_pools": node_pools, "workloads": workloads, "claims": (), "events": ()}
    return replace(plan, faults_seconds=LEAST_SECONDS, policy=policy, facts=facts, **parts)


def with_fault(rng: Random, plan: Plan, fault: str, least: float = 0.0, most: float = 1.0) -> Plan:
    """The plan with this fault once its machines run; its pick is at least `least`, and below `most`."""
    one = Event(at=RUNS_AT, fault=fault, pick=rng.uniform(least, most), seconds=round(rng.uniform(*LASTS), 1))
    return replace(plan, events=(one,))


def dra_repair(rng: Random, plan: Plan) -> Plan:
    """A machine whose GPUs a DRA driver offers: its driver is away or waits, GPUs are lost, or a new one has fewer."""
    fault = rng.choice(DRA_FAULTS)
    static = NodePool(name="dra", sizes=(EIGHT,), replicas=1, budget="0", after="Never")
    nodes = {"dra_labels": GPUS_LABEL, "device_health": "lost"}
    made = alone(plan, static, node_class={"gpu": {"mode": "DRA"}}, nodes=nodes, dra={"claims": True})
    if fault == "gpus-never":
        # Of a machine that is being created, once in a run.
        events = (Event(at=at, fault=fault, pick=rng.random(), seconds=1800.0) for at in (30.0, 60.0, 120.0))
        return replace(made, events=tuple(events))
    return with_fault(rng, made, fault)


def repair(rng: Random, plan: Plan) -> Plan:
    """A machine whose GPUs a device plugin offers: it rejects pods, has an Xid, or lacks GPUs while pods use others."""
    fault = rng.choice(("rejects-pods", "xid-and-restart", "gpu-lost-in-use", "gpus-shared", "edit-devices"))
    if fault == "gpus-shared":
        made = alone(plan, NodePool(name="repair", sizes=(EIGHT,)))
        return with_fault(rng, replace(made, claims=(Claim(at=1.0, name="ws", size=EIGHT),)), fault)
    if fault == "edit-devices":
        trains = Workload(at=1.0, name="trains", node_pool="repair", annotations={labels.DO_NOT_DISRUPT: "true"})
        dynamic = NodePool(name="repair", sizes=(EIGHT,), budget="0", after="Never")
        return with_fault(rng, alone(plan, dynamic, workloads=(trains,)), fault)
    static = NodePool(name="repair", sizes=(EIGHT,), replicas=1, budget="0", after="Never")
    return with_fault(rng, alone(plan, static), fault)


def dra_pods(rng: Random, plan: Plan) -> Plan:
    """Pods with ResourceClaims: one more when no GPU is healthy, or two of one claim, of which one waits."""
    node_pool = NodePool(name="claimed", sizes=(EIGHT,), after="Never")
    facts = {"node_class": {"gpu": {"mode": "DRA"}}, "nodes": {"dra_labels": GPUS_LABEL, "device_health": "xid"}}
    uses = {"resourceClaims": [{"name": "gpu", "resourceClaimName": SHARED_CLAIM}]}
    first = Workload(at=1.0, name="never", node_pool="claimed", gpus=0, waits=1, spec={**uses, **NOWHERE})
    second = Workload(at=60.0, name="shares", node_pool="claimed", gpus=0, spec=uses)
    if rng.random() < 0.5:
        return alone(plan, node_pool, workloads=(first, second), **facts, dra={"shared": True})
    # They leave the machine before its GPUs fail.
    runs = Workload(at=1.0, name="runs", node_pool="claimed", count=rng.randint(1, 7), gone_at=RUNS_AT - 300.0)
    last = Workload(at=RUNS_AT + 120.0, name="last", node_pool="claimed")
    made = alone(plan, node_pool, workloads=(runs, last), **facts, dra={"claims": True})
    return with_fault(rng, made, "gpus-unhealthy-for-good")


def preemption(rng: Random, plan: Plan) -> Plan:
    """The only pod of a machine ends for one that kube-scheduler has nominated to it; empty machines go at once."""
    node_pool = NodePool(name="preempted", sizes=(T4_8,), after="0s", budget="100%")
    runs = Workload(at=1.0, name="victim", node_pool="preempted", kind="Pod")
    return with_fault(rng, alone(plan, node_pool, workloads=(runs,)), "preempts")


def rack(rng: Random, plan: Plan) -> Plan:
    """NVSentinel requests other machines for four to six of ten at once."""
    made = alone(plan, NodePool(name="rack", sizes=(T4_8,), replicas=10, after="Never"), nvsentinel=True)
    return with_fault(rng, made, "terminate-nodes", 0.5)


def no_room(rng: Random, plan: Plan) -> Plan:
    """A static machine drifts while no further agent pool may be created."""
    stages = (Stage(until=RUNS_AT + rng.uniform(0.0, 1800.0), sizes=(T4_16,)),)
    static = NodePool(name="no-room", sizes=(T4_8,), replicas=1, budget="1", after="Never", stages=stages, stays=1)
    made = alone(plan, static)
    return replace(made, policy={**made.policy, "max_agent_pools": 1})


def no_place(rng: Random, plan: Plan) -> Plan:
    """Machines drift, for one of which there is no replacement, because its size is sold out."""
    stages = (Stage(until=RUNS_AT + rng.uniform(0.0, 900.0), sizes=(A100_2, T4_8)),)
    both = NodePool(name="kept", sizes=(A100_4, T4_16), after="Never", budget="100%", stages=stages, stays=1)
    kept = Workload(at=1.0, name="kept", node_pool="kept", spec=_of_size(A100_2, A100_4))
    goes = Workload(at=300.0, name="goes", node_pool="kept", count=2, spec=_of_size(T4_8, T4_16))
    return alone(plan, both, workloads=(kept, goes), refused={A100_4: "capacity"})


def _of_size(*sizes: str) -> dict[str, Any]:
    return {"affinity": requires({"key": labels.INSTANCE_TYPE, "operator": "In", "values": [*sizes]})}


GROUPS: dict[str, Callable[[Random, Plan], Plan]] = {
    one.__name__: one for one in (dra_repair, repair, dra_pods, preemption, rack, no_room, no_place)
}
