"""Input by which disruption could go wrong: users get a condition or an Event, and no machine is removed.

Each case has an empty machine and one that has drifted, both of which a correct NodePool would lose.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, workload
from tests.world.harness import Json, Sim, node_claim, simulate, simulated

from .common import passes, running

pytestmark = pytest.mark.matrix(quick=1)

CLASSES = "agentpoolnodeclasses.gpu-provisioner.sh"
POOLS = "nodepools.karpenter.sh"
SIZES = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}]
Found = Callable[[Sim], object]


@dataclass(frozen=True)
class Case:
    """`budgets`: of the NodePool. `then`: what happens before the machines are empty and drifted. `shown`: to users."""

    shown: Found
    budgets: tuple[Json, ...] = ({"nodes": "100%"},)
    then: Callable[[Sim], None] = lambda _: None


def in_condition(words: str) -> Found:
    """A condition of the NodePool has these words."""

    def found(sim: Sim) -> bool:
        node_pool = sim.store.get(POOLS, "gpu")
        return any(words in one["message"] for one in node_pool["status"].get("conditions", ()))

    return found


def event(reason: str, words: str) -> Found:
    """An Event of the NodePool has this reason and these words."""

    def found(sim: Sim) -> bool:
        events = sim.store.list("events", fields=f"involvedObject.kind=NodePool,reason={reason}")
        return any(words in one["message"] for one in events)

    return found


def blocked(sim: Sim) -> list[Json]:
    """The Events by which NodeClaims are shown not to be disrupted."""
    return sim.store.list("events", fields="involvedObject.kind=NodeClaim,reason=DisruptionBlocked")


def drop_class(sim: Sim) -> None:
    """Somebody removes the finalizer, which keeps the class while NodeClaims use it."""
    sim.store.delete(CLASSES, "default")
    if sim.store.get(CLASSES, "default") is not None:
        sim.store.patch(CLASSES, "default", {"metadata": {"finalizers": None}})


CASES = {
    "a schedule that never fires": Case(
        budgets=({"nodes": "100%", "schedule": "0 0 30 2 *", "duration": "1h"},),
        shown=in_condition("spec.disruption.budgets[0].schedule"),
    ),
    "a schedule that cannot be read": Case(
        budgets=({"nodes": "100%", "schedule": "0 25 * * *", "duration": "1h"},),
        shown=in_condition("spec.disruption.budgets[0].schedule"),
    ),
    "a budget of more digits than a number has": Case(
        budgets=({"nodes": "9" * 4301},),
        shown=in_condition("spec.disruption.budgets[0].nodes"),
    ),
    "a schedule of 600 KB": Case(
        budgets=({"nodes": "100%", "schedule": "0," * 300_000 + "0 * * * *", "duration": "1h"},),
        shown=in_condition("it has 600009 characters"),
    ),
    "a budget of 0": Case(
        budgets=({"nodes": "0"},),
        shown=event("DisruptionBlocked", "No allowed disruptions for disruption reason"),
    ),
    "a budget of 0 %": Case(
        budgets=({"nodes": "0%"},),
        shown=event("DisruptionBlocked", "No allowed disruptions for disruption reason"),
    ),
    "a node class that vanished": Case(
        then=drop_class, shown=in_condition("AgentPoolNodeClass default does not exist")
    ),
}


async def fleet(sim: Sim, *budgets: Json, after: str = "30s", **spec: Any) -> None:
    """A machine that a Deployment uses, and another one for the pod `p`."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": after, "budgets": [*budgets]}
    await sim.apply(node_pool(requirements=SIZES, disruption=disruption, **spec))
    await sim.start_controller()
    workload(sim, "ReplicaSet", "web")
    await pending(sim, pod("p"))
    await sim.until(lambda: running(sim) == 2, 1800.0, "the pods run")


def of_web(sim: Sim) -> str:
    """The machine that the Deployment uses."""
    node = next(one["spec"]["nodeName"] for one in sim.store.list("pods") if one["metadata"]["name"] != "p")
    return next(one["metadata"]["name"] for one in claims_of(sim) if one["status"].get("nodeName") == node)


async def kept(case: Case, sim: Sim) -> None:
    await fleet(sim, {"nodes": "100%"})
    before = {one["metadata"]["uid"] for one in claims_of(sim)}
    disruption = {"consolidateAfter": "30s", "budgets": [*case.budgets]}
    sim.store.patch(POOLS, "gpu", {"spec": {"disruption": disruption}})
    case.then(sim)
    await passes(sim, 10.0)
    old = {"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "of another one"}}}
    sim.store.patch("nodeclaims.karpenter.sh", of_web(sim), old)
    sim.store.delete("pods", "p", "default")
    await sim.until(lambda: case.shown(sim), 300.0, "users are shown")
    await passes(sim, 900.0)
    assert {one["metadata"]["uid"] for one in claims_of(sim)} == before
    assert not any("deletionTimestamp" in one["metadata"] for one in claims_of(sim))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_removed(name: str) -> None:
    """An empty machine and a drifted one stay, and users are shown the cause."""
    simulate(lambda sim: kept(CASES[name], sim))


@simulated()
async def test_a_budget_that_cannot_be_read_costs_its_nodepool_only(sim: Sim) -> None:
    """A drifted machine of another NodePool is replaced."""
    await fleet(sim, {"nodes": "100%"}, after="Never")
    unreadable = {"consolidateAfter": "Never", "budgets": [{"nodes": "9" * 4301}]}
    await sim.apply(node_pool("bad", requirements=SIZES, disruption=unreadable))
    drifted = of_web(sim)
    old = {"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "of another one"}}}
    sim.store.patch("nodeclaims.karpenter.sh", drifted, old)
    await sim.until(lambda: sim.claim(drifted) is None, 2400.0, "the drifted machine is gone")
    await sim.until(lambda: running(sim) == 2, 600.0, "its pod runs on another one")


@simulated()
async def test_claims_whose_nodepool_was_deleted_without_them_stay(sim: Sim) -> None:
    """`kubectl delete nodepool --cascade=orphan`: nobody else may remove them than users."""
    await fleet(sim, {"nodes": "100%"})
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    await sim.request("DELETE", "/apis/karpenter.sh/v1/nodepools/gpu", options)
    await sim.until(lambda: sim.store.get(POOLS, "gpu") is None, 60.0, "the NodePool is gone")
    sim.store.delete("pods", "p", "default")
    await passes(sim, 900.0)
    assert len(claims_of(sim)) == 2
    assert not any("deletionTimestamp" in one["metadata"] for one in claims_of(sim))
    found = blocked(sim)
    assert sorted(one["involvedObject"]["name"] for one in found) == sorted(
        one["metadata"]["name"] for one in claims_of(sim)
    )
    assert all("NodePool not found (NodePool=gpu)" in one["message"] for one in found)
    assert all(one["count"] == 1 for one in found), "they change nothing, so they are not repeated at once"
    sim.replace_controller()
    await passes(sim, 120.0)
    assert all(one["count"] == 2 for one in blocked(sim)), "a new process cannot know that the Events are there"


@simulated()
async def test_claims_of_kaito_need_no_nodepool(sim: Sim) -> None:
    """The label of KAITO's own claims names a NodePool that never exists; nobody is disturbed by an Event."""
    await fleet(sim, {"nodes": "100%"})
    await sim.apply(node_claim("w1"))
    await sim.until(lambda: sim.condition("w1", "Ready") == "True", 1800.0, "w1 is Ready")
    await passes(sim, 300.0)
    assert not blocked(sim)


@simulated()
async def test_claims_that_go_with_their_nodepool_get_no_event(sim: Sim) -> None:
    """`kubectl delete nodepool` deletes the claims with it."""
    await fleet(sim, {"nodes": "100%"})
    await sim.request("DELETE", "/apis/karpenter.sh/v1/nodepools/gpu")
    await sim.until(lambda: not claims_of(sim), 1800.0, "the machines are gone")
    assert not blocked(sim)


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)], ids=["forward", "back"])
def test_a_clock_that_jumps_removes_no_machine_in_use(jump: timedelta) -> None:
    """The process's clock is wrong by 400 days for ten minutes."""

    async def story(sim: Sim) -> None:
        await fleet(sim, {"nodes": "100%"}, after="1h")
        clock = sim.controllers["ctl0"].clock
        clock.offset = jump
        await passes(sim, 600.0)
        clock.offset = timedelta()
        await passes(sim, 600.0)
        assert len(claims_of(sim)) == 2
        assert not any("deletionTimestamp" in one["metadata"] for one in claims_of(sim))
        assert all(condition(one, "Ready").get("status") == "True" for one in claims_of(sim))

    simulate(story)
