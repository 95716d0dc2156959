"""A year of a small fleet: images, upgrades, expiry, hours of the budgets, demand that rises and falls, a shortage.

A dynamic NodePool serves two Deployments, whose replicas change, and a Job that cannot be moved, so that its machine
expires instead. KAITO has an InferenceSet of one Workspace, and permits its drift by the budget. A NodeClaim made by
hand must not be touched. Each week there is a node image, each month another template, each quarter a version of
Kubernetes.

The controller runs for an evening of a week, around what changes, and is stopped or killed after it: an idle controller
would list and watch for hours of processor time in a year. By default it runs in six weeks, with WHOLE_YEAR=1 in all.
CONTINUOUS_WEEKS=13 runs it without a pause in the first 13 weeks instead; it is still stopped or killed, and started
again at once, each evening. The invariants are checked after every write.
"""

import asyncio
import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

import pytest

from provisioner.simulator.azure import faults
from provisioner.simulator.azure.agentpool import image
from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pod
from tests.world.harness import EPOCH, SIZE, Json, Sim, node_claim, simulate
from tests.world.kaito_actor import at_work
from tests.world.kaito_karpenter import DriftController, PoolWorkspace
from tests.world.kaito_nodepools import PoolOwner
from tests.world.kaito_stage import CLASSES, QUICK, pool_api_of, pool_claims_of, serves, started

pytestmark = pytest.mark.matrix(quick=0)

WHOLE = os.environ.get("WHOLE_YEAR", "") == "1"
CONTINUOUS = int(os.environ.get("CONTINUOUS_WEEKS", "0"))
WEEKS = CONTINUOUS or 52
# The fleet expires in each gap. The shortage ends between two of them.
SAMPLE = frozenset({0, 1, 5, 20, 21, 51})
HOUR = 3600.0
# EPOCH is a Sunday at noon; weeks begin on the Monday after it.
MONDAY = 12 * HOUR
TUESDAY = 1
MINE = "by-hand"
NODE_CLAIMS = "nodeclaims.karpenter.sh"
POOLS = "nodepools.karpenter.sh"
PHI = PoolOwner(name="phi", size=SIZE, count=1, inference_set="phi-set", labels={"apps": "phi"})
LOW, HIGH = {"chat": 2, "embed": 1}, {"chat": 4, "embed": 2}
SHORTAGE_WEEK = 20
EXPIRES_SECONDS = 720 * HOUR
OFFICE_HOURS = {"nodes": "0", "schedule": "0 8 * * 1-5", "duration": "10h"}

Act = Callable[[], Awaitable[None] | None]


class Workload:
    """Pods of a controller that creates missing ones and deletes surplus ones."""

    def __init__(self, sim: Sim, kind: str, name: str, count: int, *, model: str) -> None:
        self._sim = sim
        # The pods of a Job that does not exist would be collected; ReplicaSets are not served.
        job = sim.store.create("jobs.batch", {"metadata": {"name": name}}, "default") if kind == "Job" else None
        version, uid = ("batch/v1", job["metadata"]["uid"]) if job is not None else ("apps/v1", name)
        self._owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
        self._name, self._model = name, model
        self._count, self._created = count, 0
        sim.store.subscribe(self._changed)
        self._sync()

    def scale(self, count: int) -> None:
        self._count = count
        self._sync()

    def pods(self) -> list[Json]:
        """Those that are not being deleted."""
        found = self._sim.store.list("pods", "default")
        return [
            one
            for one in found
            if self._owner in one["metadata"].get("ownerReferences", ()) and "deletionTimestamp" not in one["metadata"]
        ]

    def runs(self) -> bool:
        pods = self.pods()
        return len(pods) == self._count and all(one["status"].get("phase") == "Running" for one in pods)

    def _changed(self, event: str, resource: str, obj: Json, _: object) -> None:
        meta = obj["metadata"]
        leaves = event == "DELETED" or "deletionTimestamp" in meta
        if resource == "pods" and leaves and self._owner in meta.get("ownerReferences", ()):
            asyncio.get_running_loop().call_soon(self._sync)

    def _sync(self) -> None:
        pods = self.pods()
        for one in pods[self._count :]:
            self._sim.store.delete("pods", one["metadata"]["name"], "default")
        for _ in range(self._count - len(pods)):
            self._created += 1
            selector = {"karpenter.sh/nodepool": "gpu", "karpenter.azure.com/sku-gpu-name": self._model}
            body = pod(f"{self._name}-{self._created}", nodeSelector=selector)
            self._sim.store.create(
                "pods", {**body, "metadata": {**body["metadata"], "ownerReferences": [self._owner]}}, "default"
            )


class Figures:
    """How many machines each NodePool bought, and why NodeClaims were removed."""

    def __init__(self, sim: Sim) -> None:
        self.bought = Counter[str]()
        self.removed = Counter[str]()
        self._sim = sim
        sim.store.subscribe(self._changed)

    def _changed(self, event: str, resource: str, obj: Json, before: Json | None) -> None:
        if resource != NODE_CLAIMS:
            return
        name = obj["metadata"].get("labels", {}).get("karpenter.sh/nodepool", "")
        if event == "ADDED":
            self.bought[name] += 1
        elif "deletionTimestamp" in obj["metadata"] and "deletionTimestamp" not in (before or obj)["metadata"]:
            age = self._age(obj)
            reason = condition(obj, "DisruptionReason").get("reason", "")
            other = "Expired" if age >= EXPIRES_SECONDS else "NeverReady" if not _is_ready(obj) else "Empty"
            self.removed[f"{name}/{reason or other}"] += 1

    def _age(self, obj: Json) -> float:
        created = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
        return (EPOCH + timedelta(seconds=self._sim.now) - created).total_seconds()


def _is_ready(claim: Json) -> bool:
    return condition(claim, "Ready").get("status") == "True"


class Year:
    """The fleet and what happens to it. `log`: what happened, for the message of a failure."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.figures = Figures(sim)
        self.workloads: dict[str, Workload] = {}
        self._incarnations = 0
        self._release, self._minor = "", 33
        self._shortage = faults.capacity(size=T4)
        self._mine: Json = {}

    async def begin(self) -> None:
        """The fleet runs."""
        sim = self.sim
        await sim.apply(node_class())
        sizes = [T4, "Standard_NC8as_T4_v3", "Standard_NC64as_T4_v3", SIZE]
        disruption = {
            "consolidateAfter": "10m",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": "1"}, OFFICE_HOURS],
        }
        required = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": sizes}]
        await sim.apply(node_pool(requirements=required, disruption=disruption))
        await self.start()
        await sim.apply(node_claim(MINE, labels={"karpenter.sh/nodepool": "by-hand"}))
        self.workloads = {name: Workload(sim, "ReplicaSet", name, count, model="T4") for name, count in LOW.items()} | {
            "train": Workload(sim, "Job", "train", 1, model="A100")
        }
        await started(sim)

    async def ready(self) -> None:
        await self.sim.until(self.runs, HOUR, "all pods run")
        self._mine = self._as_made()

    def runs(self) -> bool:
        return all(one.runs() for one in self.workloads.values()) and sim_ready(self.sim, MINE)

    async def start(self) -> None:
        self._incarnations += 1
        await self.sim.start_controller(f"ctl{self._incarnations}", elect=False)

    async def stop(self) -> None:
        """By SIGTERM and by SIGKILL in turn."""
        name = f"ctl{self._incarnations}"
        if self._incarnations % 2:
            await self.sim.stop_controller(name)
        else:
            self.sim.crash(name)

    async def rest(self) -> None:
        """The end of an evening."""
        await self.stop()
        if CONTINUOUS:
            await self.start()

    def scale(self, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self.workloads[name].scale(count)

    def change(self, week: int) -> None:
        """What is new this week."""
        self._release = f"{EPOCH + timedelta(days=200 + 7 * week):%Y%m.%d.0}"
        self.sim.cloud.release_node_image(self._release)
        if week % 4 == 2:
            self.sim.store.patch(POOLS, "gpu", {"spec": {"template": {"metadata": {"labels": {"release": str(week)}}}}})
        if week % 13 == 5:
            self._minor += 1
            self.sim.cloud.upgrade_control_plane(f"1.{self._minor}.0")
        if week == SHORTAGE_WEEK:
            self.sim.cloud.faults.append(self._shortage)
        elif self._shortage in self.sim.cloud.faults:
            self.sim.cloud.faults.remove(self._shortage)

    async def check(self, week: int) -> None:
        """All pods run, on current machines that cost the least, and nothing is under way."""
        sim = self.sim
        sim.check()
        assert self.runs(), f"week {week}\n{sim.describe()}"
        assert self._as_made() == self._mine
        assert sum(map(_is_ready, pool_claims_of(sim, PHI))) == 1
        if week == SHORTAGE_WEEK:
            return  # cheaper machines are tried again and again
        assert not tainted(sim), f"week {week}\n{sim.describe()}"
        claims = [*claims_of(sim), *pool_claims_of(sim, PHI)]
        assert len(claims) == sum(LOW.values()) + 2, f"week {week}\n{sim.describe()}"
        pools = [pool for claim in claims for pool in sim.pools_of(claim["metadata"]["uid"])]
        newest = image("Ubuntu", self._release)
        old = [pool for pool in pools if pool.properties["nodeImageVersion"] != newest]
        # That of the Job waits for its expiry.
        assert [pool.properties["vmSize"] for pool in old] in ([], [SIZE]), f"week {week}\n{sim.describe()}"
        expected = {T4: sum(LOW.values()), SIZE: 2}
        assert Counter(pool.properties["vmSize"] for pool in pools) == expected, f"week {week}\n{sim.describe()}"

    def _as_made(self) -> Json:
        """What must not change of the NodeClaim made by hand, its agent pool and its Node."""
        claim = self.sim.claim(MINE) or {}
        (pool,) = self.sim.pools_of(claim["metadata"]["uid"])
        (node,) = self.sim.nodes_of(pool.name)
        kinds = ("Drifted", "Consolidatable", "DisruptionReason")
        return {
            "uid": claim["metadata"]["uid"],
            "spec": claim["spec"],
            "conditions": [kind for kind in kinds if condition(claim, kind)],
            "pool": (pool.properties["nodeImageVersion"], pool.machines),
            "node": (node["metadata"]["uid"], node["spec"].get("taints")),
        }


def sim_ready(sim: Sim, name: str) -> bool:
    return sim.condition(name, "Ready") == "True"


def tainted(sim: Sim) -> list[str]:
    return [
        one["metadata"]["name"]
        for one in sim.store.list("nodes")
        if any(taint["key"] == "karpenter.sh/disrupted" for taint in one["spec"].get("taints", ()))
    ]


def plan(year: Year, week: int) -> list[tuple[float, Act]]:
    """What happens in a week, with its time. Its budget allows nothing until 18:00."""

    def at(hour: float, act: Act) -> tuple[float, Act]:
        return MONDAY + ((week * 7 + TUESDAY) * 24 + hour) * HOUR, act

    # A controller that runs reads the newest images every six hours.
    changes = at(9.0 if CONTINUOUS else 15.0, partial(year.change, week))
    if not WHOLE and not CONTINUOUS and week not in SAMPLE:
        return [changes]
    return [
        changes,
        *([] if CONTINUOUS else [at(17.4, year.start)]),
        at(17.45, partial(year.scale, HIGH)),
        at(17.7, partial(year.scale, LOW)),
        at(18.8, partial(year.check, week)),
        at(18.81, year.rest),
    ]


async def story(sim: Sim) -> None:
    year = Year(sim)
    await year.begin()
    workspace = PoolWorkspace(pool_api_of(sim), PHI, CLASSES)
    drift = DriftController(pool_api_of(sim), [workspace])
    async with at_work(workspace, drift):
        await serves(sim, workspace)
        await year.ready()
        await year.rest()
        for week in range(WEEKS):
            for time, act in plan(year, week):
                await asyncio.sleep(time - sim.now)
                if (done := act()) is not None:
                    await done
            print(week, dict(year.figures.bought), dict(year.figures.removed), flush=True)
    flips = Counter(reason for reason, _ in drift.reported)
    bought, removed = year.figures.bought, year.figures.removed
    print(f"bought {dict(bought)}, removed {dict(removed)}, KAITO {dict(flips)}")
    weeks = WEEKS if WHOLE or CONTINUOUS else len(SAMPLE)
    assert bought["by-hand"] == 1
    # Demand that rises needs three machines a week, a new image three, expiry and a shortage some more.
    assert bought["gpu"] <= 10 * weeks
    assert bought[PHI.pool] <= weeks + 1
    assert flips["DriftStarted"] == flips["DriftComplete"]


@pytest.mark.matrix(quick=0)
def test_a_year() -> None:
    """All pods run on current machines at the end of each week, and machines are bought only for a reason."""
    simulate(story, horizon_seconds=math.inf, **QUICK)
