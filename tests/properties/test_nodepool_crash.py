"""The controllers of NodePools and node classes, killed before or after each write: a successor completes their work.

The NodePool and its claims have hashes of another version, as after an upgrade. Once all are written, the claims are
deleted with their NodePool, and the node class with its finalizer.
"""

from typing import Any

import pytest

from tests.world.claims import condition
from tests.world.harness import CrashPoint, Sim, simulate
from tests.world.nodepool.common import CLASSES, POOLS, claim_of, node_class, node_pool

from .stale import QUICK, WITHIN_SECONDS, chosen

NAMES = ("gpua", "gpub")
HASH, VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
OLD = {HASH: "123", VERSION: "v3"}


def hashes(*objects: dict[str, Any] | None) -> set[tuple[str, str]]:
    """The hash and its version on each object."""
    found = (((one or {}).get("metadata") or {}).get("annotations") or {} for one in objects)
    return {(one.get(HASH, ""), one.get(VERSION, "")) for one in found}


async def upgraded(sim: Sim) -> None:
    """Hashes, conditions, counter and finalizer are written; a deletion removes all of it."""
    await sim.apply(node_class())
    pool = node_pool()
    await sim.apply({**pool, "metadata": {**pool["metadata"], "annotations": OLD}})
    for name in NAMES:
        made = claim_of(sim, name)
        await sim.apply({**made, "metadata": {**made["metadata"], "annotations": OLD}})
    await sim.start_controller()

    def written() -> bool:
        found = sim.store.get(POOLS, "gpu") or {}
        stamped = hashes(found, *(sim.claim(name) for name in NAMES))
        ready = condition(found, "Ready").get("status") == "True"
        counted = (found.get("status") or {}).get("nodes") == len(NAMES)
        return ready and counted and len(stamped) == 1 and ("123", "v3") not in stamped

    await sim.until(written, WITHIN_SECONDS, "the NodePool is Ready, and all hashes are of this version")
    await sim.until(lambda: all(sim.condition(name, "Ready") == "True" for name in NAMES), WITHIN_SECONDS, "machines")
    assert (sim.store.get(CLASSES, "default") or {})["metadata"]["finalizers"] == ["gpu-provisioner.sh/termination"]
    sim.store.delete(CLASSES, "default")
    sim.store.delete(POOLS, "gpu")
    await sim.until(lambda: not any(sim.claim(name) for name in NAMES), WITHIN_SECONDS, "the claims are gone")
    await sim.until(lambda: sim.store.get(CLASSES, "default") is None, WITHIN_SECONDS, "the node class is gone")
    await sim.settled()


def writes_of_all() -> int:
    counted: list[int] = []

    async def story(sim: Sim) -> None:
        await upgraded(sim)
        counted.append(sim.writes)

    simulate(story, **QUICK)
    return counted[0]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_killed_at_every_write(phase: str, reset: bool) -> None:
    for number in chosen(range(1, writes_of_all() + 1), 12):
        point = CrashPoint(number, "before" if phase == "before" else "after", reset)
        try:
            simulate(upgraded, crash=point, **QUICK)
        except Exception as error:
            error.add_note(f"killed at {point}")
            raise
