"""One seed: a simulated cluster with the whole controller, a tenant who does no harm, and drawn objects.

`python -m tests.fuzz.child SEED` writes one line of JSON: how long each pod of the harmless tenant waited for its
machine, the objects that were accepted and refused, the most steps and CPU seconds of a decision. `calm` instead of a
seed: without drawn objects. A decision takes as much virtual time as CPU time; its work is counted in steps.
"""

import asyncio
import json
import logging
import sys
import time
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import structlog

from controllers.provisioning.solver.model import Decision
from provisioner.api import labels
from provisioner.api.nvsentinel import NVSentinel
from provisioner.simulator.azure.settings import AzureSettings
from tests import nvsentinel
from tests.world.demand import node_class, node_pool, pod
from tests.world.harness import Json, Sim, simulate

from .objects import draw, tenant
from .pods import relabelled

T = TypeVar("T")
PODS, EVERY_SECONDS, DRAWS = 6, 120.0, 6
RELABELLED = 3
WITHIN_SECONDS, REMOVED_SECONDS = 3600.0, 7200.0
ERROR_CHARACTERS = 6_000
OWN = {labels.NODEPOOL: "good"}


class Run:
    """The figures of one seed."""

    def __init__(self) -> None:
        self.waited: dict[str, float] = {}
        self.drawn: list[str] = []
        self.accepted = self.refused = 0
        self.slowest = 0.0
        self.steps = 0

    async def compute(self, function: Callable[[], T]) -> T:
        """A decision; the virtual time goes on by its CPU time."""
        began = time.process_time()
        result = function()
        taken = time.process_time() - began
        self.slowest = max(self.slowest, taken)
        for one in result if isinstance(result, tuple) else ():
            if isinstance(one, Decision):
                self.steps = max(self.steps, one.steps)
        await asyncio.sleep(taken)
        return result

    async def apply(self, sim: Sim, made: Json) -> None:
        try:
            await sim.apply(made)
            self.accepted += 1
        except AssertionError as error:
            if ": 4" not in str(error)[:400]:
                raise
            self.refused += 1


async def story(sim: Sim, seed: str, run: Run) -> None:
    rng = Random(seed)
    sim.store.create("namespaces", {"metadata": {"name": "tenant"}})
    await sim.apply(node_class())
    await sim.apply(node_pool("good", disruption={"consolidateAfter": "Never"}))
    for made in tenant():
        await sim.apply(made)
    for made in nvsentinel.crds():
        await sim.apply(made)
    await sim.start_controller(compute=run.compute, nvsentinel=NVSentinel())
    await asyncio.sleep(30.0)
    waiting = asyncio.create_task(harmless(sim, run))
    for number in range(0 if seed == "calm" else DRAWS):
        name, objects = draw(rng, f"x{number}")
        run.drawn.append(name)
        for made in objects:
            await run.apply(sim, made)
        for made in rng.sample(objects, min(len(objects), RELABELLED)):
            await run.apply(sim, relabelled(rng, made))
        await asyncio.sleep(rng.uniform(1.0, 100.0))
    await waiting
    await remove_all(sim)


async def harmless(sim: Sim, run: Run) -> None:
    """A pod every two minutes, each of which needs a machine of its own."""
    tasks = []
    for number in range(PODS):
        tasks.append(asyncio.create_task(one_pod(sim, run, number)))
        await asyncio.sleep(EVERY_SECONDS)
    await asyncio.gather(*tasks)


async def one_pod(sim: Sim, run: Run, number: int) -> None:
    name, began = f"good-{number}", sim.now
    await sim.apply(pod(name, nodeSelector=OWN))
    await sim.until(lambda: machines(sim) > number, WITHIN_SECONDS, f"the machine of pod {name}")
    run.waited[name] = round(sim.now - began, 1)

    def running() -> bool:
        found = sim.store.get("pods", name, "default") or {}
        return (found.get("status") or {}).get("phase") == "Running"

    await sim.until(running, WITHIN_SECONDS, f"pod {name} runs")


def machines(sim: Sim) -> int:
    """How many agent pools of the harmless tenant's NodePool were requested."""
    return sum(1 for one in sim.cloud.pools.values() if one.tags.get(labels.TAG_CLAIM_NAME, "").startswith("good-"))


async def remove_all(sim: Sim) -> None:
    """Every NodePool and NodeClaim is deleted; all machines are removed."""
    for kind, path in (("nodepools.karpenter.sh", "nodepools"), ("nodeclaims.karpenter.sh", "nodeclaims")):
        for made in sim.store.list(kind):
            await sim.request("DELETE", f"/apis/karpenter.sh/v1/{path}/{made['metadata']['name']}")
    await sim.until(lambda: not sim.store.list("nodeclaims.karpenter.sh"), REMOVED_SECONDS, "all machines are removed")


def figures(seed: str) -> dict[str, Any]:
    """Run one seed. `error`: what the story raised, "" if nothing."""
    run, error = Run(), ""
    azure = AzureSettings(create_seconds=(200.0, 200.0), node_share=(0.8, 0.8), delete_seconds=(150.0, 150.0))
    try:
        simulate(lambda sim: story(sim, seed, run), azure=azure, seed=1)
    except Exception as caught:  # noqa: BLE001 - whatever ends a seed is its result
        error = "".join(traceback.format_exception(caught))[-ERROR_CHARACTERS:]
    return {
        "seed": seed,
        "drawn": run.drawn,
        "accepted": run.accepted,
        "refused": run.refused,
        "waited": run.waited,
        "slowest": round(run.slowest, 2),
        "steps": run.steps,
        "error": error,
    }


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found = figures(sys.argv[1])
    print(json.dumps(found))
    sys.exit(1 if found["error"] else 0)
