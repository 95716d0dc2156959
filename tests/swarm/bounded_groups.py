"""Groups in which what fails for one machine fails for each: the controller bounds what it does about that. And groups
of requests that take effect when nobody waits for them any more, or that must not be sent.

As those of `gpu_groups`, each is alone in its plan.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.world.harness import SHIPPED_LEASE

from .gpu_groups import LASTS, RUNS_AT, T4_8, T4_16, alone
from .plan import Event, NodePool, Plan, Stage, Workload

# Three machines come, are not Ready for half an hour, and go.
IMAGE_SECONDS, LEAST_SECONDS = 7200.0, 9000.0
# Of `arm-slow`: PUT, before it takes effect, the shorter time.
LATE_PICK, LATE_SECONDS = 1.5e-6, 2400.0
QUICK: dict[str, Any] = {"create_seconds": (60.0, 240.0), "delete_seconds": (30.0, 120.0), "parallel_operations": None}


def sold_out(rng: Random, plan: Plan) -> Plan:
    """The only size of several machines of a static NodePool is sold out, until a user names another one."""
    stages = (Stage(until=RUNS_AT + rng.uniform(0.0, 1800.0), sizes=(T4_8,)),)
    static = NodePool(
        name="sold-out", sizes=(T4_16,), replicas=rng.randint(3, 4), budget="100%", after="Never", stages=stages
    )
    return alone(plan, static, refused={T4_8: "capacity"})


def bad_image(rng: Random, plan: Plan) -> Plan:
    """Each machine of a static NodePool comes up with an image whose kubelet is never Ready, until users correct it."""
    static = NodePool(name="bad-image", sizes=(T4_8,), replicas=1, budget="0", after="Never")
    event = Event(at=1.0, fault="image-broken", pick=rng.random(), seconds=IMAGE_SECONDS)
    made = replace(alone(plan, static), faults_seconds=LEAST_SECONDS, events=(event,))
    return replace(made, azure={**plan.azure, **QUICK})


def outage(rng: Random, plan: Plan) -> Plan:
    """No kubelet of the machines of a static NodePool answers for longer than one of them would be tolerated."""
    static = NodePool(name="outage", sizes=(T4_8,), replicas=rng.randint(3, 5), budget="0", after="Never")
    event = Event(at=RUNS_AT, fault="nodes-not-ready", pick=rng.random(), seconds=round(rng.uniform(*LASTS), 1))
    return replace(alone(plan, static), events=(event,))


def late_requests(rng: Random, plan: Plan) -> Plan:
    """Agent pools are created half a minute after their requests, and users delete NodeClaims meanwhile."""
    node_pool = NodePool(name="late", sizes=(T4_8,))
    slow = Event(at=1.0, fault="arm-slow", pick=LATE_PICK, seconds=RUNS_AT)
    brief = (
        Event(at=round(rng.uniform(120.0, RUNS_AT - 120.0), 1), fault="brief-claim", pick=rng.random())
        for _ in range(rng.randint(3, 6))
    )
    pods = Workload(at=round(rng.uniform(0.0, RUNS_AT), 1), name="late", node_pool="late")
    made = replace(alone(plan, node_pool, workloads=(pods,)), faults_seconds=LATE_SECONDS)
    return replace(made, events=tuple(sorted((slow, *brief), key=lambda one: one.at)))


def tainted(rng: Random, plan: Plan) -> Plan:
    """A policy adds a taint to each Node that is bought for a pod, which does not tolerate it."""
    node_pool = NodePool(name="tainted", sizes=(T4_8, T4_16), after=rng.choice(("30s", "Never")))
    pods = Workload(at=1.0, name="tainted", node_pool="tainted", count=rng.randint(1, 2))
    event = Event(at=0.5, fault="policy-taints", pick=rng.random(), seconds=3600.0)
    made = replace(alone(plan, node_pool, workloads=(pods,)), events=(event,))
    return replace(made, azure={**plan.azure, **QUICK})


def leader_lost(rng: Random, plan: Plan) -> Plan:
    """The leader of many machines that come cannot renew its Lease, again and again."""
    static = NodePool(name="leader-lost", sizes=(T4_8,), replicas=rng.randint(6, 9), after="Never")
    times = (20.0 + 90.0 * number + rng.uniform(0.0, 30.0) for number in range(8))
    events = tuple(
        Event(at=round(at, 1), fault="lease-fails", pick=rng.random(), seconds=round(rng.uniform(30.0, 50.0), 1))
        for at in times
    )
    made = replace(alone(plan, static), lease=SHIPPED_LEASE, faults_seconds=1800.0, events=events)
    return replace(made, policy={**made.policy, "max_creates_per_minute": 10})


GROUPS: dict[str, Callable[[Random, Plan], Plan]] = {
    one.__name__: one for one in (sold_out, bad_image, outage, late_requests, tainted, leader_lost)
}
