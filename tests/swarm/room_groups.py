"""Groups in which it matters what has room: which pods count, what fits on a machine, and what has no other place."""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from provisioner.api import labels

from .constraints import in_zones
from .gpu_groups import RUNS_AT, alone
from .plan import Event, NodePool, Plan, Stage, Workload

T4_4, T4_8, T4_16, T4_64 = (f"Standard_NC{cpus}as_T4_v3" for cpus in (4, 8, 16, 64))
RACK = "example.com/rack"
# As many drifted machines as one search looks at.
STUCK = 20


def uncounted(rng: Random, plan: Plan) -> Plan:
    """Pods that spread over zones, or are apart from pods of some namespaces, beside pods that do not count."""
    of: dict[str, Any] = {"labels": {"group": "uncounted"}}
    own, beside = (NodePool(name=name, sizes=(T4_64,), after="Never") for name in ("uncounted", "beside"))
    if rng.random() < 0.5:
        # One machine of the NodePool is full; four pods on a machine of another one have the label.
        own = replace(own, sizes=(T4_8,))
        over: dict[str, Any] = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        over["labelSelector"] = {"matchLabels": of["labels"]}
        full = Workload(at=1.0, name="full", node_pool="uncounted", spec=in_zones(1))
        others = Workload(at=1.0, name="others", node_pool="beside", count=4, spec=in_zones(1), **of)
        pods = Workload(at=RUNS_AT, name="over", node_pool="uncounted", count=3, **of)
        pods = replace(pods, spec={"topologySpreadConstraints": [over]})
        return alone(plan, own, beside, workloads=(full, others, pods))
    # In each zone runs a pod of another namespace.
    apart = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": of["labels"]}}
    apart["namespaceSelector"] = {"matchLabels": {"team": "tenant"}}
    affinity = {**in_zones(1, 2, 3)["affinity"]}
    affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    pods = Workload(
        at=RUNS_AT, name="alone", node_pool="uncounted", namespace="tenant", spec={"affinity": affinity}, **of
    )
    running = tuple(Workload(at=1.0, name=f"in{n}", node_pool="beside", spec=in_zones(n), **of) for n in (1, 2, 3))
    return alone(plan, own, beside, workloads=(*running, pods))


def many_pods(rng: Random, plan: Plan) -> Plan:
    """A pod that fits only if the kubelet kept no memory for the other pods that its Node may have."""
    node_pool = NodePool(name="many", sizes=(T4_4, T4_16), node_class={"maxPods": 250})
    amounts = {"cpu": "1", "memory": f"{rng.randint(23_000, 23_700)}Mi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    return alone(
        plan, node_pool, workloads=(Workload(at=30.0, name="fits", node_pool="many", spec={"containers": [container]}),)
    )


def stuck(rng: Random, plan: Plan) -> Plan:
    """Twenty machines have drifted whose pods find no place elsewhere; then one drifts that can be replaced."""
    first = RUNS_AT + rng.uniform(0.0, 600.0)
    former = (Stage(until=first, labels={RACK: "r1"}),)
    kept = NodePool(name="stuck", sizes=(T4_8,), after="Never", budget="100%", stays=STUCK)
    kept = replace(kept, labels={RACK: "r2"}, stages=former)
    goes = NodePool(name="fine", sizes=(T4_16,), after="Never", budget="100%")
    goes = replace(goes, stages=(Stage(until=first + rng.uniform(60.0, 600.0), sizes=(T4_8,)),))
    racked = {"nodeSelector": {"karpenter.sh/nodepool": "stuck", RACK: "r1"}}
    pods = Workload(at=1.0, name="racked", node_pool="stuck", count=STUCK, spec=racked)
    return alone(plan, kept, goes, workloads=(pods, Workload(at=1.0, name="moves", node_pool="fine")))


def under_way(rng: Random, plan: Plan) -> Plan:
    """A machine is being replaced when it expires, or when the clock of its controller is set forward."""
    if rng.random() < 0.5:
        # The machine exists for an hour; it drifts up to two minutes before.
        until = 3600.0 - rng.uniform(10.0, 120.0)
        dynamic = NodePool(name="replaced", sizes=(T4_16,), after="Never", budget="100%", expires="1h")
        dynamic = replace(dynamic, stages=(Stage(until=until, sizes=(T4_8,)),))
        return alone(plan, dynamic, workloads=(Workload(at=1.0, name="moves", node_pool="replaced"),))
    until = RUNS_AT + rng.uniform(0.0, 900.0)
    static = NodePool(name="replaced", sizes=(T4_16,), replicas=1, budget="1", after="Never")
    made = alone(plan, replace(static, stages=(Stage(until=until, sizes=(T4_8,)),)))
    # By two to five hours.
    forward = Event(at=until + 60.0, fault="clock-jumps", pick=rng.uniform(0.258, 0.283), seconds=300.0)
    return replace(made, events=(forward,))


GROUPS: dict[str, Callable[[Random, Plan], Plan]] = {
    one.__name__: one for one in (uncounted, many_pods, stuck, under_way)
}
