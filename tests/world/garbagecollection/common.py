"""What the tests of garbage collection share: pools without a claim, and what is observed of them."""

import math
from dataclasses import replace
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure.agentpool import Pool
from tests.world.harness import Sim, node_claim
from tests.world.main_job import NAME, ready
from tests.world.transcript import CLAIMS, pool_calls, strip

NO_BOUND: dict[str, Any] = {"gc_bound_seconds": math.inf}
FOREIGN = ["system", "theirs"]
LEGACY = {
    labels.KAITO_CREATION_TIMESTAMP: "2026-02-01T08-00-00Z",
    labels.KAITO_MACHINE_TYPE: "gpu",
    labels.NODEPOOL: "kaito",
}
CRD_KEY = "customresourcedefinitions.apiextensions.k8s.io"


async def fleet(sim: Sim, count: int, **options: Any) -> list[str]:
    """Start a controller and wait until that many claims are Ready; their names."""
    await sim.start_controller(**options)
    names = [f"gpu{number}" for number in range(count)]
    for name in names:
        await sim.apply(node_claim(name))
    for name in names:
        await ready(sim, name)
    return names


async def one(sim: Sim, **options: Any) -> str:
    """Start a controller and wait until one claim is Ready; its UID."""
    await sim.start_controller(**options)
    return await ready(sim)


def deletes(sim: Sim) -> list[str]:
    """The pools for which controllers have sent a DELETE."""
    return [call.target.name for call in pool_calls(sim, "DELETE", None)]


def upgrade(sim: Sim) -> None:
    sim.cloud.lifecycle.start_operation(sim.cloud.pools[NAME], "Upgrading", "updated")


def upgraded(sim: Sim) -> None:
    pool: Pool = sim.cloud.pools[NAME]
    done = replace(pool, state="Succeeded", operation="", etag=sim.cloud.lifecycle.guid())
    sim.cloud.pool_store.put("updated", done)


def heal(sim: Sim) -> None:
    sim.cloud.faults.clear()


def uids(sim: Sim, names: list[str]) -> list[str]:
    """The UIDs of these claims; "" for a missing one."""
    return [(sim.claim(name) or {"metadata": {"uid": ""}})["metadata"]["uid"] for name in names]


def restore(sim: Sim, name: str, adopt: str = "") -> str:
    """Delete the claim of that name with its Node and re-create it under a new UID; the old UID."""
    old = sim.claim(name)
    assert old is not None
    strip(sim, name)
    made = node_claim(name)
    if adopt:
        made["metadata"]["annotations"] = {labels.ADOPT: adopt}
    sim.store.create(CLAIMS, made)
    return old["metadata"]["uid"]


def adopt(sim: Sim, name: str, uid: str) -> None:
    sim.store.patch(CLAIMS, name, {"metadata": {"annotations": {labels.ADOPT: uid}}})
