"""Draws a plan from a seed. What a run has is drawn first, with probability zero too; then how much of it.

A run that leaves out most faults and features finds what a run with all of them hides: a fault that strikes each run
stops it before the others can combine (swarm testing, Groce et al., 2012).
"""

import math
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.world.demand import TOLERATION
from tests.world.harness import SHIPPED_LEASE, SLOW_LEASE

from . import catalogue, constraints, facts, groups
from .plan import Claim, Event, NodePool, Plan, Workload

T4, A100, H100, EIGHT = (
    "Standard_NC4as_T4_v3",
    "Standard_NC24ads_A100_v4",
    "Standard_NC40ads_H100_v5",
    "Standard_ND96isr_H100_v5",
)
# AKS has this taint on spot machines.
SPOT_TOLERATION = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}
GPUS = {T4: 1, A100: 1, H100: 1, EIGHT: 8}
FAULTS_SECONDS = (900.0, 7200.0)
# A fault is left out of most runs; its rate is drawn for those that have it.
CHANCES = (0.0, 0.1, 0.5, 1.0)
MOST_EVENTS = 60
# More than the other features of a plan need, and few enough for a run.
MOST_POOLS = 40


def draw(seed: int) -> Plan:
    """The plan of this seed."""
    rng = Random(f"swarm/{seed}")
    until = _between(rng, *FAULTS_SECONDS)
    node_pools = tuple(_node_pool(rng, f"np{number}") for number in range(_log(rng, 0, 4)))
    claims = tuple(_claim(rng, f"c{number}", until) for number in range(_log(rng, 0 if node_pools else 1, 12)))
    own = Random(f"swarm/{seed}/constraints")
    constrained = own.random() < constraints.RUNS
    if constrained:
        node_pools = tuple(replace(one, tiers=own.choice(((), ("a", "b")))) for one in node_pools)
    azure, nodes, policy, events = _azure(rng), _nodes(rng), _policy(rng), tuple(_events(seed, until))
    if any(one.fault == "replicas-mistyped" for one in events):
        policy["max_agent_pools"] = MOST_POOLS
    plan = Plan(
        seed=seed,
        faults_seconds=round(until, 1),
        azure=azure,
        nodes=nodes,
        policy=policy,
        facts=facts.draw(Random(f"swarm/{seed}/facts"), node_pools, claims),
        window=rng.choice((20, 1000, 1000)),
        lease=rng.choice((SHIPPED_LEASE, SLOW_LEASE, SLOW_LEASE, SLOW_LEASE)),
        node_pools=node_pools,
        workloads=tuple(
            _constrained(own, one, node_pools) if constrained else one for one in _workloads(rng, node_pools, until)
        ),
        claims=claims,
        events=events,
    )
    return groups.draw(seed, plan)


def _log(rng: Random, least: int, most: int) -> int:
    """A whole number, small ones more often than large ones."""
    return least - 1 + int(math.exp(rng.uniform(0.0, math.log(most - least + 2))))


def _between(rng: Random, least: float, most: float) -> float:
    return math.exp(rng.uniform(math.log(least), math.log(most))) if least > 0 else rng.uniform(least, most)


def _azure(rng: Random) -> dict[str, Any]:
    parallel = rng.choice((None, None, None, 1))
    # One after the other, a dozen slow creations would take longer than a run waits.
    slow = (300.0, 1200.0) if parallel is None else (60.0, 120.0)
    return {
        "create_seconds": rng.choice(((60.0, 240.0), (180.0, 300.0), slow)),
        "delete_seconds": rng.choice(((30.0, 120.0), (120.0, 600.0))),
        "node_share": rng.choice(((0.6, 1.1), (0.3, 0.5), (1.0, 1.6))),
        "get_lag_seconds": rng.choice((0.0, 0.0, 3.0, 10.0)),
        "list_lag_seconds": rng.choice((0.0, 0.0, 5.0, 20.0)),
        "list_order": rng.choice(("before", "after")),
        "delete_preempts": rng.random() < 0.5,
        "page_size": rng.choice((5, 40, 100)),
        "regional_zone": rng.choice(("0", "", "westeurope-1")),
        "parallel_operations": parallel,
    }


def _nodes(rng: Random) -> dict[str, Any]:
    return {
        "gpu_seconds": rng.choice(((20.0, 60.0), (0.0, 1.0), (60.0, 400.0))),
        "ready_seconds": rng.choice(((10.0, 40.0), (0.0, 1.0), (40.0, 200.0))),
        "reregister": rng.random() < 0.3,
    }


def _policy(rng: Random) -> dict[str, Any]:
    """Small limits, so that few machines meet them."""
    return {
        "max_creates_per_minute": rng.choice((2, 10, 100)),
        "circuit_breaker_floor": rng.choice((1, 3)),
        "gpu_readiness": rng.choice(("require", "require", "report")),
    }


def _node_pool(rng: Random, name: str) -> NodePool:
    replicas = rng.randint(1, 4) if rng.random() < 0.3 else None
    return NodePool(
        name=name,
        sizes=tuple(rng.sample((T4, A100, H100, EIGHT), rng.choice((1, 1, 2, 4)))),
        capacity=rng.choice((("on-demand",), ("on-demand",), ("spot",), ("spot", "on-demand"))),
        replicas=replicas,
        budget=rng.choice(("10%", "1", "50%", "100%", "0")),
        policy=rng.choice(("WhenEmpty", "WhenEmptyOrUnderutilized")),
        after=rng.choice(("0s", "30s", "5m", "Never")),
    )


def _workloads(rng: Random, node_pools: tuple[NodePool, ...], until: float) -> list[Workload]:
    made = []
    for number in range(_log(rng, 0, 8) if node_pools else 0):
        node_pool = rng.choice(node_pools)
        begins, kind = rng.uniform(0.0, until * 0.8), rng.choice(("ReplicaSet", "StatefulSet", "Job", "Pod"))
        most = node_pool.replicas or 4
        made.append(
            Workload(
                at=round(begins, 1),
                name=f"w{number}",
                node_pool=node_pool.name,
                kind=kind,  # type: ignore[arg-type]
                count=rng.randint(1, most),
                gpus=1,
                seconds=round(rng.uniform(60.0, 3600.0), 1) if kind == "Job" else 0.0,
                gone_at=round(rng.uniform(begins, until), 1) if rng.random() < 0.4 or node_pool.replicas else 0.0,
                spec={"tolerations": [TOLERATION, SPOT_TOLERATION]} if "spot" in node_pool.capacity else {},
            )
        )
    return made


def _constrained(rng: Random, workload: Workload, node_pools: tuple[NodePool, ...]) -> Workload:
    node_pool = next(one for one in node_pools if one.name == workload.node_pool)
    return replace(workload, spec={**workload.spec, **constraints.draw(rng, workload.name, node_pool)})


def _claim(rng: Random, name: str, until: float) -> Claim:
    begins = rng.uniform(0.0, until * 0.8)
    gone = round(rng.uniform(begins, until), 1) if rng.random() < 0.4 else 0.0
    return Claim(at=round(begins, 1), name=name, size=rng.choice((T4, A100, H100)), gone_at=gone)


def _events(seed: int, until: float) -> list[Event]:
    found: list[Event] = []
    for fault in catalogue.faults().values():
        # Of each row: a new row does not change what others draw.
        own = Random(f"swarm/{seed}/{fault.name}")
        if not fault.verb or own.random() >= own.choice(CHANCES) * 0.3:
            continue
        per_second, at = _between(own, *fault.per_hour) / 3600.0, 0.0
        while (at := at + own.expovariate(per_second)) < until and len(found) < MOST_EVENTS:
            seconds = min(_between(own, *fault.seconds), until - at)
            found.append(Event(at=round(at, 1), fault=fault.name, pick=own.random(), seconds=round(seconds, 1)))
    return sorted(found, key=lambda one: one.at)
