"""The shipped NodePools, applied unchanged: each disrupts its machines when its first line says so."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml

from tests.world.claims import EXAMPLES, condition
from tests.world.demand import claims_of, pending, pod
from tests.world.harness import Sim, simulated
from tests.world.nodeclaim.common import offer

pytestmark = pytest.mark.matrix(quick=0)

Json = dict[str, Any]

FOLDER = EXAMPLES / "nodepools"
POOLS = ("when-empty", "office-hours", "expiring", "static")
MINUTE_SECONDS, HOUR_SECONDS = 60.0, 3600.0
# The world begins on Sunday, 2026-03-01, at 12:00 UTC.
MONDAY_SECONDS = 12 * HOUR_SECONDS


async def applied(sim: Sim, *stems: str) -> None:
    """The NodePools and their class, as a user applies them."""
    for stem in ("class", *stems):
        for one in yaml.safe_load_all((FOLDER / f"{stem}.yaml").read_text(encoding="utf-8")):
            await sim.apply(one)


async def running(sim: Sim, pool: str, **spec: Any) -> None:
    """A pod `p` runs on a machine of this NodePool."""
    await pending(sim, pod("p", nodeSelector={"karpenter.sh/nodepool": pool}, **spec))
    await sim.until(lambda: sim.store.get("pods", "p", "default")["status"]["phase"] == "Running", 1800.0, "it runs")


def staying(sim: Sim, pool: str) -> list[str]:
    """The NodeClaims of the NodePool that are not being deleted."""
    return [one["metadata"]["uid"] for one in claims_of(sim, pool) if "deletionTimestamp" not in one["metadata"]]


def ready(objects: Iterable[Json]) -> int:
    """How many of them are Ready."""
    return sum(condition(obj, "Ready").get("status") == "True" for obj in objects)


async def until_time(sim: Sim, seconds: float) -> None:
    await sim.until(lambda: sim.now >= seconds, seconds - sim.now + 60.0, "time passes")


@simulated()
async def test_each_nodepool_is_ready(sim: Sim) -> None:
    """All of the folder together, without a note about a field."""
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == sorted((*POOLS, "class", "prices"))
    await applied(sim, *POOLS, "prices")
    await sim.start_controller()
    pools = "nodepools.karpenter.sh"
    await sim.until(lambda: ready(sim.store.list(pools)) == len(POOLS), 60.0, "all are Ready")
    assert {condition(pool, "ValidationSucceeded")["message"] for pool in sim.store.list(pools)} == {""}
    overlays = "nodeoverlays.karpenter.sh"
    await sim.until(lambda: ready(sim.store.list(overlays)) == 2, 60.0, "the prices are used")


@simulated()
async def test_a_machine_for_jobs_is_removed_ten_minutes_after_its_last_pod(sim: Sim) -> None:
    await applied(sim, "when-empty")
    await sim.start_controller()
    await running(sim, "when-empty")
    await until_time(sim, sim.now + HOUR_SECONDS)
    sim.store.delete("pods", "p", "default")
    began = sim.now
    await sim.until(lambda: not staying(sim, "when-empty"), HOUR_SECONDS, "the machine goes")
    assert 10 * MINUTE_SECONDS <= sim.now - began <= 11 * MINUTE_SECONDS


@simulated()
async def test_office_hours_keep_empty_machines(sim: Sim) -> None:
    """A machine that is empty on Monday from 9:00 on is removed at 18:00."""
    await applied(sim, "office-hours")
    await asyncio.sleep(MONDAY_SECONDS + 8.5 * HOUR_SECONDS)
    await sim.start_controller()
    await running(sim, "office-hours")
    sim.store.delete("pods", "p", "default")
    await until_time(sim, MONDAY_SECONDS + 18 * HOUR_SECONDS - MINUTE_SECONDS)
    assert len(staying(sim, "office-hours")) == 1
    events = sim.store.list("events", fields="involvedObject.kind=NodePool,reason=DisruptionBlocked")
    assert events
    await sim.until(lambda: not staying(sim, "office-hours"), 3 * MINUTE_SECONDS, "the machine goes")


@simulated(horizon_seconds=40 * 24 * HOUR_SECONDS)
async def test_a_machine_expires_after_30_days_and_is_drained_for_one(sim: Sim) -> None:
    """A protected pod stays; the claim states the time at which the drain ends."""
    await applied(sim, "expiring")
    await sim.start_controller()
    await running(sim, "expiring")
    sim.store.patch("pods", "p", {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}, "default")
    await sim.stop_controller()
    await asyncio.sleep(30 * 24 * HOUR_SECONDS - sim.now)
    await sim.start_controller("ctl1")
    await sim.until(lambda: not staying(sim, "expiring"), HOUR_SECONDS, "it expires")
    await until_time(sim, sim.now + 10 * MINUTE_SECONDS)
    (claim,) = claims_of(sim, "expiring")
    meta = claim["metadata"]
    ends = datetime.fromisoformat(meta["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"])
    assert ends - datetime.fromisoformat(meta["deletionTimestamp"]) == timedelta(hours=24)
    assert sim.store.get("pods", "p", "default")["status"]["phase"] == "Running"


@simulated()
async def test_static_machines_exist_without_pods(sim: Sim) -> None:
    await applied(sim, "static")
    await sim.start_controller()
    await sim.until(lambda: ready(claims_of(sim, "static")) == 2, 1800.0, "two machines")
    before = staying(sim, "static")
    await until_time(sim, sim.now + HOUR_SECONDS)
    assert staying(sim, "static") == before


GPU_FOLDER = EXAMPLES / "gpus"
DEVICES = {
    "mig-single": ("nvidia.com/gpu", 7),
    "mig-mixed": ("nvidia.com/mig-1g.10gb", 7),
    "time-slicing": ("nvidia.com/gpu.shared", 4),
    "gpu-operator": ("nvidia.com/gpu", 1),
}


@pytest.mark.parametrize("stem", DEVICES)
@simulated()
async def test_partitioned_and_shared_gpus_take_many_pods(sim: Sim, stem: str) -> None:
    """As many pods as a machine has devices run on one machine, which is Ready once all are allocatable."""
    assert {path.stem for path in GPU_FOLDER.glob("*.yaml")} == {*DEVICES}
    resource, count = DEVICES[stem]
    for document in yaml.safe_load_all((GPU_FOLDER / f"{stem}.yaml").read_text(encoding="utf-8")):
        await sim.apply(document)
    sim.nodes.plugin_delay_seconds = 100 * HOUR_SECONDS
    await sim.start_controller()
    amounts = {"cpu": "100m", "memory": "1Gi", resource: "1"}
    containers = [{"name": "main", "image": "trainer", "resources": {"requests": amounts, "limits": amounts}}]
    pods = [f"p{number}" for number in range(count)]
    await pending(sim, *(pod(name, gpus=0, containers=containers) for name in pods))
    node = (await sim.until(lambda: nodes_of(sim, stem), HOUR_SECONDS, "a Node"))[0]["metadata"]["name"]
    await offer(sim, node, {resource: str(count)})
    await sim.until(lambda: running_pods(sim) == count, HOUR_SECONDS, "all run")
    assert ready(claims_of(sim, stem)) == 1


def running_pods(sim: Sim) -> int:
    return sum(one["status"].get("phase") == "Running" for one in sim.store.list("pods"))


def nodes_of(sim: Sim, pool: str) -> list[Json]:
    return sim.store.list("nodes", labels=f"karpenter.sh/nodepool={pool}")
