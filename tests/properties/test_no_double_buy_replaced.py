"""No pod pays twice (I13) when its machine is replaced, whatever happens to the provisioner.

Either no offering of the first NodeClaims is available, so that they are deleted and others are created; or the machine
of a running pod is removed, so that the next one is created while the pod is drained. At no moment are there more
NodeClaims that are not being deleted than pods.
"""

from collections.abc import Awaitable, Callable

import pytest

from provisioner.simulator.azure import faults
from tests.world.demand import T4, claims_of, pending, pod, workload
from tests.world.harness import CrashPoint, Json, Sim, simulate
from tests.world.transcript import CLAIMS

from .double_buy import AFTERWARDS_SECONDS, Created, prepared, stale_from
from .stale import QUICK, STALE_SECONDS, chosen

PODS = ("a", "b", "c")
# Each of the offerings that fail is tried by one NodeClaim at a time, with a growing delay.
WITHIN_SECONDS = STALE_SECONDS + 1200.0
LEASES, LEASE = "leases.coordination.k8s.io", "gpu-provisioner"
SIZE = "node.kubernetes.io/instance-type"


class Live:
    """The largest number of NodeClaims that were not being deleted."""

    def __init__(self, sim: Sim) -> None:
        self.most = 0
        self._names: set[str] = set()
        sim.store.subscribe(self._changed)

    def _changed(self, event: str, resource: str, obj: Json, _: object) -> None:
        if resource == CLAIMS:
            going = event == "DELETED" or "deletionTimestamp" in obj["metadata"]
            (self._names.discard if going else self._names.add)(obj["metadata"]["name"])
            self.most = max(self.most, len(self._names))


def size_of(claim: Json) -> str:
    return next(one["values"] for one in claim["spec"]["requirements"] if one["key"] == SIZE)[0]


async def more_passes(sim: Sim) -> None:
    end = sim.now + AFTERWARDS_SECONDS
    await sim.until(lambda: sim.now >= end, AFTERWARDS_SECONDS + 60.0, "more passes")


async def without_quota(sim: Sim, created: Created) -> None:
    """The cheapest size has no quota: each pod gets another machine instead of its first one."""
    live = Live(sim)
    sim.cloud.faults.append(faults.quota_preflight(size=T4))
    await pending(sim, *(pod(name) for name in PODS))
    await created.reach(sim, len(PODS))

    def replaced() -> bool:
        found = claims_of(sim)
        return len(found) == len(PODS) and all(size_of(claim) != T4 for claim in found)

    await sim.until(replaced, WITHIN_SECONDS, "each pod has another machine")
    await more_passes(sim)
    assert replaced()
    assert live.most == len(PODS)


async def removed(sim: Sim, created: Created) -> None:
    """The NodeClaim of a running pod is deleted; its successor runs on the one machine that is created."""
    live = Live(sim)
    workload(sim, "ReplicaSet", "trainer")

    def running() -> set[str]:
        return {one["metadata"]["uid"] for one in sim.store.list("pods") if one["status"]["phase"] == "Running"}

    first = await sim.until(running, WITHIN_SECONDS, "the pod runs")
    (claim,) = claims_of(sim)
    await sim.delete_claim(claim["metadata"]["name"])
    await sim.until(lambda: running() - first, WITHIN_SECONDS, "its successor runs")
    await sim.until(lambda: len(claims_of(sim)) == 1, WITHIN_SECONDS, "the first machine is gone")
    await more_passes(sim)
    assert len(claims_of(sim)) == 1
    assert len(created.revisions) == 2
    assert live.most == 1


Story = Callable[[Sim, Created], Awaitable[None]]
STORIES: dict[str, tuple[Story, int]] = {"without quota": (without_quota, 2 * len(PODS)), "removed": (removed, 2)}


def writes_of(story: Story, claims: int) -> int:
    """The number of writes until the last NodeClaim exists."""
    counted: list[int] = []

    async def counting(sim: Sim) -> None:
        created = await prepared(sim, "ctl0")
        created.at[claims] = lambda: counted.append(sim.writes)
        await story(sim, created)

    simulate(counting, **QUICK)
    return counted[0]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("phase", ["before", "after"])
def test_killed_at_every_write(phase: str, name: str) -> None:
    """A successor replaces what is not yet replaced, and nothing else."""
    story, claims = STORIES[name]

    async def undisturbed(sim: Sim) -> None:
        await story(sim, await prepared(sim, "ctl0"))

    for number in chosen(range(1, writes_of(story, claims) + 1), 8):
        point = CrashPoint(number, "before" if phase == "before" else "after", reset=True)
        try:
            simulate(undisturbed, crash=point, **QUICK)
        except Exception as error:
            error.add_note(f"killed at {point}")
            raise


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("kinds", [(CLAIMS,), ("nodes",), ("pods",), (CLAIMS, "nodes", "pods")], ids="-".join)
def test_stale_caches(kinds: tuple[str, ...], name: str) -> None:
    """Caches that show what was before a NodeClaim was created lead to no second one."""
    story, claims = STORIES[name]
    for number in chosen(range(1, claims + 1), 2):

        async def stale(sim: Sim, number: int = number) -> None:
            created = await prepared(sim, "ctl0", elect=False)
            stale_from(sim, created, kinds, number, restart=True, lost=False)
            await story(sim, created)

        simulate(stale, **QUICK)


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("name", STORIES)
def test_lost_events(name: str) -> None:
    """A watch that never delivers a NodeClaim delays the next decision."""
    story, claims = STORIES[name]
    for number in range(1, claims + 1):

        async def lossy(sim: Sim, number: int = number) -> None:
            created = await prepared(sim, "ctl0", elect=False)
            stale_from(sim, created, (CLAIMS,), number, restart=False, lost=True)
            await story(sim, created)

        simulate(lossy, **QUICK)


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("seed", range(1, 5))
def test_two_replicas_without_a_lease(seed: int, name: str) -> None:
    """Both decide at the same time; the API server accepts each name once."""
    story, _ = STORIES[name]

    async def twice(sim: Sim) -> None:
        await story(sim, await prepared(sim, "ctl0", "ctl1", elect=False))

    simulate(twice, seed=seed, latency_seconds=(0.0005, 1.0), **QUICK)


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("name", STORIES)
def test_another_leader(name: str) -> None:
    """The leader releases the lease in the middle of a batch; the follower continues at once, with its own caches."""
    story, claims = STORIES[name]
    for number in range(1, claims + 1):

        async def handed_over(sim: Sim, number: int = number) -> None:
            created = await prepared(sim, "ctl0")
            await sim.until(lambda: sim.store.get(LEASES, LEASE, "kube-system"), 60.0, "ctl0 leads")
            await sim.start_controller("ctl1")
            created.at[number] = lambda: sim.world.tasks.create_task(sim.stop_controller("ctl0"))
            await story(sim, created)
            lease = sim.store.get(LEASES, LEASE, "kube-system")
            assert lease is not None
            assert lease["spec"]["holderIdentity"] == "ctl1"

        simulate(handed_over, **QUICK)
