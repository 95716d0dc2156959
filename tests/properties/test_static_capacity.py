"""A static NodePool gets exactly its replicas (I13), though the controller is killed before or after each write."""

import pytest

from tests.world.demand import claims_of, node_class, node_pool
from tests.world.harness import CrashPoint, Sim, Story, simulate

from .double_buy import Created
from .stale import QUICK, chosen

REPLICAS, FEWER = 3, 1
WITHIN_SECONDS = 400.0


def running(sim: Sim) -> int:
    return sum("deletionTimestamp" not in claim["metadata"] for claim in claims_of(sim))


def story_counting(counted: list[int]) -> Story:
    """Up to three replicas, then down to one; `counted` gets the writes until that."""

    async def story(sim: Sim) -> None:
        created = Created(sim)
        await sim.apply(node_class())
        await sim.apply(node_pool(replicas=REPLICAS))
        await sim.start_controller("ctl0")
        await sim.until(lambda: running(sim) == REPLICAS, WITHIN_SECONDS, "three NodeClaims")
        sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"replicas": FEWER}})
        await sim.until(lambda: running(sim) == FEWER, WITHIN_SECONDS, "one NodeClaim")
        counted.append(sim.writes)
        end = sim.now + 120.0
        await sim.until(lambda: sim.now >= end, 180.0, "some more passes")
        assert (running(sim), len(created.names)) == (FEWER, REPLICAS)

    return story


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("phase", ["before", "after"])
def test_killed_at_every_write(phase: str) -> None:
    """A successor creates and deletes what is missing, and nothing besides."""
    counted: list[int] = []
    simulate(story_counting(counted), **QUICK)
    assert counted[0] >= 2 * REPLICAS - FEWER
    for number in chosen(range(1, counted[0] + 1), 12):
        point = CrashPoint(number, "before" if phase == "before" else "after", reset=False)
        try:
            simulate(story_counting([]), crash=point, **QUICK)
        except Exception as error:
            error.add_note(f"killed at {point}")
            raise
