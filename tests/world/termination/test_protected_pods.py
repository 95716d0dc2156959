"""Stories of pods that a removal must not stop before they leave, and of removals that must end all the same."""

import asyncio

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault
from tests.world.harness import Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import (
    BUDGETS,
    FAST,
    claim_condition,
    deleting,
    node_name,
    pool_calls,
    refuse,
    run_pod,
    strip,
)

from .common import budget, evictions, up, up_with

pytestmark = pytest.mark.matrix(quick=0)

HOUR = 3600.0
# What is asserted is when a pool goes, not only whether.
ANY_TIME = 1e9


@pytest.mark.parametrize("how", ["Kubernetes' garbage collector is behind", "the Node has no owner"])
@simulated(azure=FAST, gc_bound_seconds=ANY_TIME)
async def test_an_orphans_ready_node_is_drained_before_its_pool_goes(sim: Sim, how: str) -> None:
    """Nothing has deleted the Node: it is tainted, its pods are evicted, and the wait for a budget is bounded."""
    await up(sim)
    node = node_name(sim)
    run_pod(sim, "app", node)
    budget(sim, "keep", "app")
    if "collector" in how:
        sim.api.collector.stop()
    else:
        sim.store.patch("nodes", node, {"metadata": {"ownerReferences": None}})
        await asyncio.sleep(5)
    strip(sim, NAME)
    began = sim.now
    await sim.until(lambda: pool_calls(sim, "DELETE"), HOUR, "DELETE of the pool")
    assert 900 <= sim.now - began <= 1080
    assert evictions(sim, "app")
    taints = (sim.store.get("nodes", node) or {"spec": {}})["spec"].get("taints") or ()
    assert labels.DISRUPTED_TAINT in {taint["key"] for taint in taints}


@pytest.mark.parametrize("stated", [None, "2999-01-01T00:00:00Z"], ids=["as written", "in the future"])
@simulated(azure=FAST, gc_bound_seconds=ANY_TIME)
async def test_restarts_do_not_extend_the_drain_of_an_orphan(sim: Sim, stated: str | None) -> None:
    """Nothing has deleted the Node, and no claim has a deadline: the time counts from its taint."""
    await up(sim)
    node = node_name(sim)
    run_pod(sim, "app", node)
    budget(sim, "keep", "app")
    sim.store.patch("nodes", node, {"metadata": {"ownerReferences": None}})
    await asyncio.sleep(5)
    strip(sim, NAME)
    began = sim.now
    for number in range(1, 4):
        await asyncio.sleep(7 * 60)
        if stated is not None:
            taints = (sim.store.get("nodes", node) or {})["spec"]["taints"]
            changed = [{**one, "timeAdded": stated} for one in taints if one["key"] == labels.DISRUPTED_TAINT]
            sim.store.patch("nodes", node, {"spec": {"taints": changed}})
            break
        if pool_calls(sim, "DELETE"):
            break
        sim.crash()
        await sim.start_controller(f"ctl{number}")
    await sim.until(lambda: pool_calls(sim, "DELETE"), HOUR, "DELETE of the pool")
    assert 900 <= pool_calls(sim, "DELETE")[0].at - began <= 1200


@pytest.mark.parametrize("then", ["the Node is deleted", "the Node stays"])
@simulated(azure=FAST)
async def test_a_node_without_our_finalizer_does_not_cost_its_pods(sim: Sim, then: str) -> None:
    """Somebody removes the finalizer of the Node during the drain: its pool waits for the budget all the same."""
    await up(sim)
    node = node_name(sim)
    run_pod(sim, "app", node)
    budget(sim, "keep", "app")
    if then == "the Node stays":
        sim.store.patch("nodes", node, {"metadata": {"finalizers": ["example.com/other"]}})
    await sim.delete_claim(NAME)
    if then == "the Node is deleted":
        await sim.until(lambda: evictions(sim, "app"), 60, "an eviction is sent")
        sim.store.patch("nodes", node, {"metadata": {"finalizers": None}})
    # Kubernetes deletes the pods of a Node that does not exist, budgets or not; not before that.
    alive = lambda: sim.store.get("pods", "app", "default") is not None  # noqa: E731
    for _ in range(300):
        await asyncio.sleep(1)
        assert not (alive() and pool_calls(sim, "DELETE")), claim_condition(sim, "Drained")
    if alive():
        assert "app" in claim_condition(sim, "Drained")[2]
        sim.store.delete(BUDGETS, "keep", "default")
    if then == "the Node stays":
        await sim.until(lambda: sim.cloud.pools.get(NAME) is None, 300, "the pool is gone")
        sim.store.patch("nodes", node, {"metadata": {"finalizers": None}})
    await sim.until(lambda: sim.claim(NAME) is None, 300, "the claim is gone")


@simulated(azure=FAST)
async def test_a_drain_ends_in_time_though_its_pods_cannot_be_listed(sim: Sim) -> None:
    """The claim grants 5 minutes; the API server refuses the list of pods, and the condition reports it."""
    await up_with(sim, "5m")
    run_pod(sim, "app", node_name(sim))
    refuse(sim, lambda c: c.target.kind == "pods" and c.verb == "LIST" and c.who == "ctl0", 403, "Forbidden")
    began = sim.now
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 330, "DELETE of the pool")
    assert sim.now - began >= 299
    assert "failed to read the pods" in claim_condition(sim, "Drained")[2]


@simulated(azure=FAST)
async def test_an_accepted_delete_that_fails_is_retried_like_a_refused_one(sim: Sim) -> None:
    """After 5 s, doubling to 30 s, with its cause on the claim."""
    await up(sim)
    cause = faults.error("InternalOperationError", "VMSS delete failed.")
    fault = Fault(verb="DELETE", times=ALWAYS, failure=Failure(error=cause, after_seconds=2.0))
    sim.cloud.faults.append(fault)
    await sim.delete_claim(NAME)
    await asyncio.sleep(HOUR)
    assert 60 <= len(pool_calls(sim, "DELETE")) <= 150
    reported = claim_condition(sim, "InstanceTerminating")
    assert "VMSS delete failed." in reported[2], reported
    sim.cloud.faults.remove(fault)
    await sim.until(lambda: sim.claim(NAME) is None, 300, "the claim is gone")


@simulated(azure=FAST, gc_bound_seconds=ANY_TIME)
async def test_an_overdue_repair_holds_no_place(sim: Sim) -> None:
    """One of six pools is locked by its owner. The next Node that fails is repaired all the same."""
    names = [f"ws{number}" for number in range(6)]
    await sim.start_controller()
    for name in names:
        await sim.apply(node_claim(name))
    await sim.until(lambda: all(sim.condition(n, "Ready") == "True" for n in names), 1200, "all are Ready")
    locked = errors.rp(409, "ScopeLocked", "The scope is locked.")
    sim.cloud.faults.append(Fault(verb="DELETE", pool="ws0", times=ALWAYS, answer=locked))
    sim.nodes.set_ready(node_name(sim, "ws0"), None)
    await asyncio.sleep(3 * HOUR)
    assert deleting(sim.claim("ws0"))
    sim.nodes.set_ready(node_name(sim, "ws3"), None)
    await sim.until(lambda: sim.claim("ws3") is None or deleting(sim.claim("ws3")), HOUR, "ws3 is repaired")
