"""A decision that takes seconds: what changes meanwhile is neither lost nor bought twice."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.world.demand import claims_of, node_class, node_pool, pending, pod, watches_pods
from tests.world.harness import Sim, simulated

T = TypeVar("T")
SECONDS = 8.0


async def slow(function: Callable[[], T]) -> T:
    """The result of a decision is known after some time; it reads only what was known before."""
    result = function()
    await asyncio.sleep(SECONDS)
    return result


async def deciding(sim: Sim) -> None:
    """A controller that has begun a decision for the pod `first`."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller(compute=slow)
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    await pending(sim, pod("first"))
    await asyncio.sleep(3.0)
    assert not claims_of(sim)


async def later(sim: Sim) -> None:
    await asyncio.sleep(3 * SECONDS)


@simulated()
async def test_a_pod_that_arrives_meanwhile_is_decided_next(sim: Sim) -> None:
    """It opens the next batch, which is decided at once after the first one and counts its NodeClaim."""
    await deciding(sim)
    await pending(sim, pod("second"))
    await sim.until(lambda: len(claims_of(sim)) == 1, SECONDS, "the NodeClaim of the first pod")
    await sim.until(lambda: len(claims_of(sim)) == 2, SECONDS + 1.5, "the NodeClaim of the second pod")
    await later(sim)
    assert len(claims_of(sim)) == 2


@pytest.mark.parametrize("gone", ["pod", "nodepool"])
def test_what_goes_meanwhile_gets_no_machine(gone: str) -> None:
    """Nothing is bought for a pod that was deleted during the decision, or from a NodePool that was."""

    @simulated()
    async def story(sim: Sim) -> None:
        await deciding(sim)
        if gone == "pod":
            sim.store.delete("pods", "first", "default")
        else:
            sim.store.delete("nodepools.karpenter.sh", "gpu")
        await later(sim)
        assert not claims_of(sim)

    story()
