"""The controller, killed before or after each write while it replaces a drifted machine, or undoes that.

A successor completes the replacement, or begins it again: at the end there is one machine, another than before, and no
taint. While it lasts there are at most two NodeClaims. If the NodePool goes meanwhile, no mark is left.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from provisioner.simulator.azure import faults
from tests.world.claims import condition
from tests.world.demand import claims_of
from tests.world.disruption.common import drift, live, marks, ready, static, tainted
from tests.world.harness import CrashPoint, Json, Sim, simulate

from .stale import QUICK, chosen

pytestmark = pytest.mark.matrix(quick=0)

Story = Callable[[Sim], Coroutine[Any, Any, None]]


async def replaced(sim: Sim, began: Callable[[int], None] = lambda _: None) -> None:
    """The machine is replaced."""
    await static(sim, 1)
    began(sim.writes)
    drift(sim, "gpu-1")
    most = count(sim)
    await sim.until(lambda: "gpu-1" not in live(sim) and len(ready(sim)) == 1, 7200.0, "another machine")
    await sim.settled()
    assert max(most) <= 2
    assert not tainted(sim)


async def abandoned(sim: Sim, began: Callable[[int], None] = lambda _: None) -> None:
    """The NodePool is deleted while the machine is replaced; its machines stay."""
    await static(sim, 1)
    began(sim.writes)
    drift(sim, "gpu-1")
    await sim.until(lambda: tainted(sim) or len(live(sim)) > 1, 1800.0, "it is being replaced")
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    await sim.request("DELETE", "/apis/karpenter.sh/v1/nodepools/gpu", options)
    await sim.until(lambda: sim.store.get("nodepools.karpenter.sh", "gpu") is None, 60.0, "the NodePool is gone")
    end = sim.now + 300.0
    await sim.until(lambda: sim.now >= end, 600.0, "five minutes")
    assert "gpu-1" in ready(sim)
    assert not marks(sim)


async def undone(sim: Sim, began: Callable[[int], None] = lambda _: None) -> None:
    """No machine can be bought for half an hour; then the machine is replaced."""
    await static(sim, 1)
    fault = faults.capacity()
    sim.cloud.faults.append(fault)
    began(sim.writes)
    drift(sim, "gpu-1")
    most = count(sim)
    end = sim.now + 1800.0
    await sim.until(lambda: sim.now >= end, 3600.0, "half an hour")
    assert "gpu-1" in ready(sim)
    sim.cloud.faults.remove(fault)
    await sim.until(lambda: "gpu-1" not in live(sim) and len(ready(sim)) == 1, 7200.0, "another machine")
    await sim.settled()
    assert max(most) <= 2
    assert not tainted(sim)


def count(sim: Sim) -> list[int]:
    """The numbers of NodeClaims at all writes from now on, besides those of which nothing but the removal is left.

    The instance of such a one is being deleted, or it was never launched.
    """
    found = [1]

    def leaves(one: Json) -> bool:
        launched, terminating = (condition(one, kind).get("status") for kind in ("Launched", "InstanceTerminating"))
        return terminating == "True" or ("deletionTimestamp" in one["metadata"] and launched != "True")

    def look(*_: object) -> None:
        found.append(sum(not leaves(one) for one in claims_of(sim)))

    sim.store.subscribe(look)
    return found


def writes(story: Any) -> range:
    """The writes from the drift on."""
    first: list[int] = []
    report = simulate(lambda sim: story(sim, first.append), **QUICK)
    return range(first[0] + 1, report.writes + 1)


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("story", [replaced, undone, abandoned])
def test_killed_at_every_write(story: Story, phase: str) -> None:
    for number in chosen(writes(story), 8):
        point = CrashPoint(number, "before" if phase == "before" else "after", reset=False)
        try:
            simulate(story, crash=point, **QUICK)
        except Exception as error:
            error.add_note(f"killed at {point}")
            raise
