"""Two hundred claims in bad weather: whatever is drawn, what is left in the end is what was asked for.

Claims come and go for half an hour, most of them at once in its middle, while ARM throttles, refuses, loses answers and
runs out of machines, reads lag behind, the API server refuses writes, people delete claims, Nodes and pools, and
controllers are killed. I1 to I7 are checked at every write and KAITO looks on; at each checkpoint every claim that is
not well says why, and says nothing that has not happened. Then the weather calms: claims, pools and Nodes agree, no 429
was heard that the weather did not send, and the two claims that can never be served name their causes.

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
from tests.world.transcript import said as said_of

from .chaos import NO_QUOTA, Weather, azure_of, cause_of

COUNT = 200
STORM_SECONDS = 1800.0
CHECK_SECONDS = 60.0
# A controller was killed, its lease runs out, the next one reads everything and meets bad weather itself.
SILENCE_SECONDS = 180.0
# Cooled offerings, refused DELETEs, lost answers: what the storm left behind takes its time.
CALM_SECONDS = 3600.0
LEAVING_SHARE = 0.8
# Those whom nobody asks to go. They are so few that the circuit breaker might hold whatever is inferred of them, for
# good reason: from half time on nobody meddles.
STAYING = frozenset(f"c{number:03d}" for number in range(0, COUNT, 10))
# Inferred removals in ten minutes stay below what trips the circuit breaker.
DEED_SECONDS = 75.0
RISING = ("Launched", "Registered", "Initialized")
FALLING = ("Drained", "VolumesDetached", "InstanceTerminating")
# The codes of failed creations that the weather draws, by the reason that a claim gives for them.
DRAWN = {
    "AllocationFailed": "AllocationFailed",
    "ZonalAllocationFailed": "ZonalAllocationFailed",
    "QuotaExceeded": "OperationNotAllowed",
}
# No weather can mend these: what they say, from the first failure that the weather does not outdo to the end.
UNSERVED = {"nocores": ("QuotaExceeded", ": limit 0, "), "theirs": ("PoolNameTaken", "is not ours")}
SIZES = ("Standard_NC24ads_A100_v4", "Standard_NC40ads_H100_v5", "Standard_NC4as_T4_v3")


def seeds() -> list[int]:
    """As CHAOS_SEEDS says (`3`, `1-20`, `4,8`), else one."""
    text = os.environ.get("CHAOS_SEEDS", "1")
    ranges = (part.partition("-") for part in text.split(","))
    return [seed for low, _, high in ranges for seed in range(int(low), int(high or low) + 1)]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("seed", seeds())
def test_chaos(seed: int) -> None:
    """Whatever the weather, claims, pools and Nodes agree in the end, nobody was throttled by us, all causes told."""

    # A storm's log has some hundred thousand lines, which nobody reads; the ledger tells what happened.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    async def story(sim: Sim) -> None:
        await Chaos(sim, seed).told()

    try:
        simulate(story, seed=seed, azure=azure_of(seed), horizon_seconds=86_400.0)
    except BaseException as error:
        error.add_note(f"chaos of seed {seed}; again: CHAOS_SEEDS={seed} pytest tests/properties/test_chaos.py")
        raise


class Chaos:
    def __init__(self, sim: Sim, seed: int) -> None:
        self.sim = sim
        self.weather = Weather(sim, seed)
        self._people = Random(f"{seed}/people")
        self._deeds = Random(f"{seed}/deeds")
        self._leaving = Random(f"{seed}/leaving")
        self._seen_since: dict[str, float] = {}

    async def told(self) -> None:
        await self.sim.start_controller(policy=Policy(max_creates_per_minute=100))
        async with asyncio.TaskGroup() as tasks:
            for task in (
                self._owners(),
                self._exodus(),
                self._meddlers(),
                self.weather.kill_now_and_then(STORM_SECONDS),
                self._checkpoints(),
            ):
                tasks.create_task(task)
        self.weather.calm()
        await self.sim.until(self._well, CALM_SECONDS, "every claim that is left is Ready, and all others are gone")
        await self.sim.until(self._unserved_say_why, CALM_SECONDS, "those that cannot be served say why")
        await self.sim.settled(within_seconds=1800.0)
        assert self._unserved_say_why()
        self._nothing_differs()
        self._nobody_throttled_by_us()

    # people

    async def _owners(self) -> None:
        """Claims come in bursts, and most of them go again."""
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

    async def _exodus(self) -> None:
        """At half time most of what there is goes at once: more DELETEs and proofs than AKS takes in a minute."""
        rng, sim = self._leaving, self.sim
        await asyncio.sleep(STORM_SECONDS / 2)
        for claim in self._served():
            leaves, name = rng.random() < LEAVING_SHARE, claim["metadata"]["name"]
            if leaves and name not in STAYING and sim.claim(name) is not None:
                await sim.delete_claim(name)

    async def _meddlers(self) -> None:
        """Now and then somebody deletes a Node, a pool in the portal, or a claim with its finalizers off."""
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

    # what must hold

    async def _checkpoints(self) -> None:
        while self.sim.now < STORM_SECONDS:
            await asyncio.sleep(CHECK_SECONDS)
            self.sim.check()
            self._causes_are_told()

    def _causes_are_told(self) -> None:
        """Of each claim that is as unwell as it was three minutes ago."""
        now = self.sim.now
        for claim in self.sim.store.list(CLAIMS):
            meta = claim["metadata"]
            pool = next(iter(self.sim.pools_of(meta["uid"])), None)
            place = (pool.incarnation, pool.state) if pool is not None else None
            since = self._seen_since.setdefault(f"{meta['uid']}/{'deletionTimestamp' in meta}/{place}", now)
            if now - since < SILENCE_SECONDS or self.sim.condition(meta["name"], "Ready") == "True":
                continue
            wrong = self._untold(claim, pool)
            assert not wrong, f"{meta['name']} {wrong}\n{self.sim.tell()}"

    def _untold(self, claim: Json, pool: Pool | None) -> str:
        """What is wrong with what this claim says of itself, "" if nothing is."""
        name, going = claim["metadata"]["name"], "deletionTimestamp" in claim["metadata"]
        stages = (*RISING, *FALLING) if going else RISING
        told = [c for c in (claim.get("status") or {}).get("conditions") or () if c["type"] in stages]
        unwell = {c["type"]: c for c in told if c["status"] != "True" and c.get("message") and c.get("reason")}
        if not unwell:
            return "is not well and does not say why"
        launched = unwell.get("Launched")
        if going or launched is None:
            return ""
        reason, drawn = launched["reason"], self.weather.causes
        if pool is not None and pool.state == "Failed" and cause_of(pool) not in launched["message"]:
            return f"has a pool that failed of {cause_of(pool)}, and says {launched['message']}"
        if pool is None and reason == "Creating" and "cannot be looked up" not in launched["message"]:
            return "has no pool and says that it is being created"
        if reason == "NodesNotReady" and reason not in drawn.get(name, ()):
            return f"says {reason}, which has not happened to it"
        if reason in DRAWN and name not in UNSERVED and not any(DRAWN[reason] in codes for codes in drawn.values()):
            return f"says {reason}, which has happened to nobody"
        return ""

    def _unserved_say_why(self) -> bool:
        """They are still there, have no machine, and bear their causes."""
        for name, (reason, words) in UNSERVED.items():
            status, said, message = said_of(self.sim, "Launched", name)
            if (status, said) != ("False", reason) or words not in message:
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

    def _nobody_throttled_by_us(self) -> None:
        heard = [request for request in self.sim.cloud.requests if request.status == 429]
        assert len(heard) == sum(self.weather.throttled.values()), self.weather.throttled
        assert {kind for kind, times in self.weather.happened.items() if times} >= {"429", "409", "5xx", "kill"}
