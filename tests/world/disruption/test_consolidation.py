"""Machines that cost more than their pods need are removed, replaced or divided, and no pod changes its GPU model."""

import pytest

from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_pool, workload
from tests.world.harness import Sim, simulated

from .common import A100, T4_64, allow, created, events, fleet, live, passes, ready, replica, running, sizes, tainted

pytestmark = pytest.mark.matrix(quick=0)

POOLS = "nodepools.karpenter.sh"


def types(sim: Sim) -> list[str]:
    return sorted(one["metadata"]["labels"].get("node.kubernetes.io/instance-type", "") for one in claims_of(sim))


@simulated()
async def test_a_machine_that_is_too_large_is_replaced(sim: Sim) -> None:
    """The NodePool allows a cheaper size of the same model from now on; the pod runs there afterwards."""
    await fleet(sim, T4_64, web=1)
    assert types(sim) == [T4_64]
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=sizes(T4_64, T4))["spec"]["template"]}})
    await sim.until(lambda: types(sim) == [T4] and len(ready(sim)) == 1, 3600.0, "the cheaper machine")
    (message,) = events(sim, "NodeClaim", "DisruptionLaunching")
    assert message.endswith("to be Initialized; saves at least 4.782 USD an hour"), message
    await sim.until(lambda: running(sim) == 1, 600.0, "the pod runs")
    assert not tainted(sim)
    await passes(sim, 600.0)
    assert types(sim) == [T4]


@simulated()
async def test_a_machine_is_divided_into_cheaper_ones(sim: Sim) -> None:
    """Three pods with a GPU each run on three machines that together cost less than half."""
    await fleet(sim, T4_64, a=1, b=1, c=1)
    assert types(sim) == [T4_64]
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=sizes(T4_64, T4))["spec"]["template"]}})
    await sim.until(lambda: types(sim) == [T4] * 3 and len(ready(sim)) == 3, 3600.0, "three machines")
    await sim.until(lambda: running(sim) == 3, 600.0, "the pods run")
    assert not tainted(sim)


@simulated()
async def test_no_pod_changes_its_gpu_model(sim: Sim) -> None:
    """A T4 costs less and has a GPU too; the pod runs on an A100 and stays there."""
    await fleet(sim, A100, web=1)
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=sizes(A100, T4))["spec"]["template"]}})
    (claim,) = claims_of(sim)
    await sim.until(lambda: condition(claims_of(sim)[0], "Consolidatable"), 600.0, "the machine is quiet")
    await passes(sim, 900.0)
    assert live(sim) == [claim["metadata"]["name"]]
    assert events(sim, "NodeClaim", "Unconsolidatable") == {"Can't replace with a cheaper node"}


@simulated()
async def test_when_empty_moves_no_pod(sim: Sim) -> None:
    """The machine is kept as long as its pod runs."""
    await fleet(sim, T4_64, policy="WhenEmpty", web=1)
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=sizes(T4_64, T4))["spec"]["template"]}})
    await passes(sim, 900.0)
    assert types(sim) == [T4_64]
    assert not events(sim, "NodeClaim", "Unconsolidatable"), "the NodePool states it itself"


@simulated()
async def test_after_a_replacement_failed_the_next_one_waits(sim: Sim) -> None:
    """A user deletes each replacement: there are two in twenty minutes, and the machine takes pods again."""
    await fleet(sim, T4_64, web=1)
    seen = {one["metadata"]["uid"] for one in claims_of(sim)}
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=sizes(T4_64, T4))["spec"]["template"]}})
    end = sim.now + 1200.0

    def others() -> dict[str, str]:
        metas = (one["metadata"] for one in claims_of(sim))
        return {meta["uid"]: meta["name"] for meta in metas if meta["uid"] not in seen}

    while sim.now < end:
        await sim.until(lambda: others() or sim.now >= end, 1800.0, "a replacement, or the end")
        for uid, name in others().items():
            seen.add(uid)
            sim.store.delete("nodeclaims.karpenter.sh", name)
    assert len(seen) == 3
    await sim.until(lambda: types(sim) == [T4_64] and not tainted(sim), 600.0, "it is undone")
    assert running(sim) == 1


@simulated()
async def test_a_budget_that_holds_a_saving_ends_without_a_change(sim: Sim) -> None:
    """Nothing may go in the first forty minutes of each hour; the machine is replaced in the other twenty."""
    await fleet(sim, T4_64, web=1)
    held = {"nodes": "0", "schedule": "0 * * * *", "duration": "40m"}
    disruption = {
        "disruption": {"budgets": [held]},
        "template": node_pool(requirements=sizes(T4_64, T4))["spec"]["template"],
    }
    while sim.now % 3600.0 > 60.0:
        await passes(sim, 30.0)
    sim.store.patch(POOLS, "gpu", {"spec": disruption})
    began = sim.now
    await sim.until(lambda: tainted(sim), 3600.0, "the command")
    assert 40 * 60.0 - 60.0 <= sim.now - began <= 40 * 60.0 + 60.0
    await sim.until(lambda: types(sim) == [T4], 3600.0, "the cheaper machine")


@simulated()
async def test_a_command_is_validated_for_15_seconds(sim: Sim) -> None:
    """From the change that makes it possible to the first mark."""
    await fleet(sim, T4_64, web=1)
    await sim.until(lambda: condition(claims_of(sim)[0], "Consolidatable"), 600.0, "the machine is quiet")
    allow(sim, T4_64, T4)
    began = sim.now
    await sim.until(lambda: tainted(sim), 600.0, "the command")
    assert 15.0 <= sim.now - began <= 30.0


@simulated()
async def test_a_machine_whose_pods_fit_elsewhere_is_deleted_at_once(sim: Sim) -> None:
    """Nothing is bought; the pod runs on the other machine."""
    await fleet(sim, T4_64, web=2)
    replica(sim, "filler", gpus=2)
    await sim.until(lambda: running(sim) == 2, 600.0, "the machine is full")
    workload(sim, "ReplicaSet", "small")
    await sim.until(lambda: running(sim) == 3 and len(ready(sim)) == 2, 1800.0, "another machine")
    sim.store.delete("pods", "filler", "default")
    before = created(sim)
    await sim.until(lambda: len(claims_of(sim)) == 1, 3600.0, "one machine is left")
    await sim.until(lambda: running(sim) == 2, 600.0, "both pods run")
    assert created(sim) == before
    assert "Disrupting NodeClaim: Underutilized" in str(events(sim, "NodeClaim", "DisruptionTerminating"))
