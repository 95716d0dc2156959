"""Never more machines are going than the budget of a NodePool allows (I15), though the controller is killed.

Two NodePools with budgets of their own are emptied at the same time. After all faults every empty machine is gone.
"""

import pytest

from tests.world.claims import condition
from tests.world.demand import claims_of, node_class, node_pool, pending, pod
from tests.world.harness import CrashPoint, Sim, Story, simulate

from .stale import QUICK, chosen

POOLS = ("a", "b")
PODS = 2
WITHIN_SECONDS = 1200.0
BUDGET = {"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}


def going(sim: Sim, pool: str) -> int:
    """Machines that are removed, until their instance is being deleted."""
    found = [one for one in claims_of(sim, pool) if "deletionTimestamp" in one["metadata"]]
    return sum(condition(one, "InstanceTerminating").get("status") != "True" for one in found)


def running(sim: Sim) -> bool:
    pods = [one for one in sim.store.list("pods") if one["metadata"]["namespace"] == "default"]
    return len(pods) == PODS * len(POOLS) and all(one["status"]["phase"] == "Running" for one in pods)


def emptied(first: list[int], last: list[int]) -> Story:
    """Two fleets run and lose their pods; `first` and `last` get the writes before and after the removal."""

    async def story(sim: Sim) -> None:
        most = dict.fromkeys(POOLS, 0)

        def changed(*_: object) -> None:
            for name in POOLS:
                most[name] = max(most[name], going(sim, name))

        sim.store.subscribe(changed)
        await sim.apply(node_class())
        for name in POOLS:
            await sim.apply(node_pool(name, disruption=BUDGET))
        await sim.start_controller("ctl0")
        for name in POOLS:
            selector = {"karpenter.sh/nodepool": name}
            await pending(sim, *(pod(f"{name}{number}", nodeSelector=selector) for number in range(PODS)))
        await sim.until(lambda: running(sim), WITHIN_SECONDS, "the pods run")
        first.append(sim.writes)
        for name in POOLS:
            for number in range(PODS):
                sim.store.delete("pods", f"{name}{number}", "default")
        await sim.until(lambda: not any(claims_of(sim, name) for name in POOLS), WITHIN_SECONDS, "all are gone")
        last.append(sim.writes)
        assert most == dict.fromkeys(POOLS, 1)

    return story


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("phase", ["before", "after"])
def test_killed_at_every_write_of_the_removal(phase: str) -> None:
    """A successor counts the machines that are going before it removes another one."""
    first, last = list[int](), list[int]()
    simulate(emptied(first, last), **QUICK)
    assert last[0] - first[0] >= PODS * len(POOLS)
    for number in chosen(range(first[0] + 1, last[0] + 1), 10):
        point = CrashPoint(number, "before" if phase == "before" else "after", reset=False)
        try:
            simulate(emptied([], []), crash=point, **QUICK)
        except Exception as error:
            error.add_note(f"killed at {point}")
            raise
