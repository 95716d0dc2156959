"""Chaos test: two hundred claims converge to the wanted state whatever faults are injected.

Claims are created and deleted for half an hour, most of them at half time, while ARM throttles, refuses, drops
responses and runs out of capacity, reads lag, the API server refuses writes, users delete claims, Nodes and pools, and
controllers are killed. I1 to I7 are checked at every write, and KAITO's watcher runs beside. At each checkpoint every
claim that is not Ready reports an accurate reason. After the faults end, claims, pools and Nodes agree, every 429 was
an injected one, and the two claims that cannot be provisioned report their causes.

    CHAOS_SEEDS=1-20 pytest tests/properties/test_chaos.py      other seeds than make test's
"""

import asyncio
import logging
import os
from random import Random

import pytest
import structlog

from controllers.model.policy import Policy
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import pool_mark
from tests.world.harness import Json, Sim, node_claim, simulate
from tests.world.transcript import CLAIMS, strip
from tests.world.transcript import claim_condition as condition_of

from .chaos import NO_QUOTA, FaultInjector, azure_of, cause_of

COUNT = 200
STORM_SECONDS = 1800.0
CHECK_SECONDS = 60.0
# A controller was killed, its lease expires, and its successor reads everything under further faults.
SILENCE_SECONDS = 180.0
# Unavailable offerings, refused DELETEs and lost responses take this long to clear after the faults end.
CALM_SECONDS = 3600.0
LEAVING_SHARE = 0.8
# Claims that no user deletes. They are so few that the circuit breaker could block inferred removals among them; from
# half time on, users change nothing.
STAYING = frozenset(f"c{number:03d}" for number in range(0, COUNT, 10))
# The number of inferred removals in ten minutes stays below the circuit breaker's limit.
DEED_SECONDS = 75.0
RISING = ("Launched", "Registered", "Initialized")
FALLING = ("Drained", "VolumesDetached", "InstanceTerminating")
# The injected error codes of failed creations, by the reason that the claim reports.
DRAWN = {
    "AllocationFailed": "AllocationFailed",
    "ZonalAllocationFailed": "ZonalAllocationFailed",
    "QuotaExceeded": "OperationNotAllowed",
}
# These claims cannot be provisioned: the reasons that they report, from the first failure on that no injected fault
# hides.
UNSERVED = {
    "nocores": ("QuotaExceeded", ": limit 0, "),
    "theirs": ("PoolNameTaken", "is not managed by this controller"),
}
SIZES = ("Standard_NC24ads_A100_v4", "Standard_NC40ads_H100_v5", "Standard_NC4as_T4_v3")


def seeds() -> list[int]:
    """The seeds in CHAOS_SEEDS (`3`, `1-20`, `4,8`), otherwise one seed."""
    text = os.environ.get("CHAOS_SEEDS", "1")
    ranges = (part.partition("-") for part in text.split(","))
    return [seed for low, _, high in ranges for seed in range(int(low), int(high or low) + 1)]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("seed", seeds())
def test_chaos(seed: int) -> None:
    """Whatever faults are injected, claims, pools and Nodes agree at the end, no 429 is caused by us, and every cause
    is reported.
    """

    # The log of this test has some hundred thousand lines; the audit log has what is needed.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    async def story(sim: Sim) -> None:
        await Chaos(sim, seed).run()

    try:
        simulate(story, seed=seed, azure=azure_of(seed), horizon_seconds=86_400.0)
    except BaseException as error:
        error.add_note(f"chaos of seed {seed}; again: CHAOS_SEEDS={seed} pytest tests/properties/test_chaos.py")
        raise


class Chaos:
    def __init__(self, sim: Sim, seed: int) -> None:
        self.sim = sim
        self.injector = FaultInjector(sim, seed)
        self._people = Random(f"{seed}/people")
        self._deeds = Random(f"{seed}/deeds")
        self._leaving = Random(f"{seed}/leaving")
        self._seen_since: dict[str, float] = {}

    async def run(self) -> None:
        await self.sim.start_controller(policy=Policy(max_creates_per_minute=100))
        async with asyncio.TaskGroup() as tasks:
            for task in (
                self._owners(),
                self._mass_deletion(),
                self._meddlers(),
                self.injector.kill_at_intervals(STORM_SECONDS),
                self._checkpoints(),
            ):
                tasks.create_task(task)
        self.injector.calm()
        await self.sim.until(self._well, CALM_SECONDS, "every claim that is left is Ready, and all others are gone")
        await self.sim.until(self._unserved_report_causes, CALM_SECONDS, "those that cannot be served say why")
        await self.sim.settled(within_seconds=1800.0)
        assert self._unserved_report_causes()
        self._nothing_differs()
        self._no_429_caused_by_us()

    # users

    async def _owners(self) -> None:
        """Create claims in bursts, and delete most of them again."""
        rng, made, sim = self._people, 0, self.sim
        for name in UNSERVED:
            await sim.apply(node_claim(name, size=NO_QUOTA))
        async with asyncio.TaskGroup() as lives:
            while made < COUNT:
                burst = min(rng.choice((1, 2, 5, 30)), COUNT - made)
                for number in range(made, made + burst):
                    await sim.apply(self._claim(number))
                    if rng.random() < 0.8 and f"c{number:03d}" not in STAYING:
                        lives.create_task(self._goes(f"c{number:03d}", rng.uniform(1.0, STORM_SECONDS / 2)))
                made += burst
                await asyncio.sleep(rng.uniform(0.2, 1.8) * burst * STORM_SECONDS / 2 / COUNT)

    def _claim(self, number: int) -> Json:
        rng = self._people
        sizes = rng.sample(SIZES, rng.choice((1, 1, 2, 3)))
        wanted = [("node.kubernetes.io/instance-type", sizes)]
        if rng.random() < 0.2:
            wanted.append(("karpenter.sh/capacity-type", rng.choice((["spot"], ["spot", "on-demand"]))))
        requirements = [{"key": key, "operator": "In", "values": values} for key, values in wanted]
        return node_claim(f"c{number:03d}", requirements=requirements)

    async def _goes(self, name: str, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        if self.sim.claim(name) is not None:
            await self.sim.delete_claim(name)

    async def _mass_deletion(self) -> None:
        """Delete most claims at half time: more DELETEs and proofs of absence than AKS accepts in a minute."""
        rng, sim = self._leaving, self.sim
        await asyncio.sleep(STORM_SECONDS / 2)
        for claim in self._served():
            leaves, name = rng.random() < LEAVING_SHARE, claim["metadata"]["name"]
            if leaves and name not in STAYING and sim.claim(name) is not None:
                await sim.delete_claim(name)

    async def _meddlers(self) -> None:
        """Delete a Node, a pool by hand, or a claim without its finalizers, at random intervals."""
        sim, rng = self.sim, self._deeds
        await asyncio.sleep(STORM_SECONDS / 8)
        while sim.now < STORM_SECONDS / 2 - 2.0 * DEED_SECONDS:
            await asyncio.sleep(rng.uniform(1.0, 2.0) * DEED_SECONDS)
            alive = [claim for claim in self._served() if "deletionTimestamp" not in claim["metadata"]]
            pools = [pool for claim in alive for pool in sim.pools_of(claim["metadata"]["uid"]) if not pool.busy]
            if not pools:
                continue
            name = rng.choice(pools).name
            match rng.choice(("node", "pool", "claim")):
                case "node" if sim.nodes_of(name):
                    await sim.delete_node(sim.nodes_of(name)[0]["metadata"]["name"])
                case "pool":
                    sim.cloud.delete_pool_by_hand(name)
                case _:
                    strip(sim, name)

    # assertions

    async def _checkpoints(self) -> None:
        while self.sim.now < STORM_SECONDS:
            await asyncio.sleep(CHECK_SECONDS)
            self.sim.check()
            self._causes_are_reported()

    def _causes_are_reported(self) -> None:
        """Check the reasons of all claims that have not changed for three minutes."""
        now = self.sim.now
        for claim in self.sim.store.list(CLAIMS):
            meta = claim["metadata"]
            pool = next(iter(self.sim.pools_of(meta["uid"])), None)
            place = (pool.incarnation, pool.state) if pool is not None else None
            since = self._seen_since.setdefault(f"{meta['uid']}/{'deletionTimestamp' in meta}/{place}", now)
            if now - since < SILENCE_SECONDS or self.sim.condition(meta["name"], "Ready") == "True":
                continue
            wrong = self._reporting_error(claim, pool)
            assert not wrong, f"{meta['name']} {wrong}\n{self.sim.describe()}"

    def _reporting_error(self, claim: Json, pool: Pool | None) -> str:
        """The error in what this claim reports; "" if there is none."""
        name, going = claim["metadata"]["name"], "deletionTimestamp" in claim["metadata"]
        stages = (*RISING, *FALLING) if going else RISING
        conditions = [c for c in (claim.get("status") or {}).get("conditions") or () if c["type"] in stages]
        unwell = {c["type"]: c for c in conditions if c["status"] != "True" and c.get("message") and c.get("reason")}
        if not unwell:
            return "is not well and does not say why"
        launched = unwell.get("Launched")
        if going or launched is None:
            return ""
        reason, drawn = launched["reason"], self.injector.causes
        if pool is not None and pool.state == "Failed" and cause_of(pool) not in launched["message"]:
            return f"has a pool that failed of {cause_of(pool)}, and reports {launched['message']}"
        if pool is None and reason == "Creating" and "cannot be looked up" not in launched["message"]:
            return "has no pool and reports that it is being created"
        if reason == "NodesNotReady" and reason not in drawn.get(name, ()):
            return f"reports {reason}, which has not happened to it"
        if reason in DRAWN and name not in UNSERVED and not any(DRAWN[reason] in codes for codes in drawn.values()):
            return f"reports {reason}, which was not injected"
        return ""

    def _unserved_report_causes(self) -> bool:
        """Check that the claims that cannot be provisioned exist, have no machine, and report their causes."""
        for name, (reason, text) in UNSERVED.items():
            status, reported, message = condition_of(self.sim, "Launched", name)
            if (status, reported) != ("False", reason) or text not in message:
                return False
        return True

    def _served(self) -> list[Json]:
        return [claim for claim in self.sim.store.list(CLAIMS) if claim["metadata"]["name"] not in UNSERVED]

    def _well(self) -> bool:
        claims = self._served()
        return all(self.sim.condition(c["metadata"]["name"], "Ready") == "True" for c in claims) and len(
            self._ours()
        ) == len(claims)

    def _ours(self) -> list[str]:
        return [pool.name for pool in self.sim.cloud.pools.values() if pool_mark(pool)]

    def _nothing_differs(self) -> None:
        sim = self.sim
        claims = {claim["metadata"]["uid"] for claim in self._served()}
        pools = sorted(pool_mark(pool) for pool in sim.cloud.pools.values() if pool_mark(pool))
        nodes = sorted(node["metadata"]["labels"]["agentpool"] for node in sim.store.list("nodes"))
        assert pools == sorted(claims)
        assert nodes == sorted(sim.cloud.pools)
        assert claims, "some claims were to stay"

    def _no_429_caused_by_us(self) -> None:
        received = [request for request in self.sim.cloud.requests if request.status == 429]
        assert len(received) == sum(self.injector.throttled.values()), self.injector.throttled
        assert {kind for kind, times in self.injector.happened.items() if times} >= {"429", "409", "5xx", "kill"}
