"""Stories of the proof that an agent pool is deleted: by a LIST for many pools at once, by a GET while LISTs fail."""

import asyncio
import statistics
from dataclasses import replace

import pytest

from controllers.model.policy import Policy
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME
from tests.world.transcript import FAST, node_name, pool_calls, run_pod

from .common import up

pytestmark = pytest.mark.matrix(quick=0)

MANY = 90
NAMES = [f"burst{number:03d}" for number in range(MANY)]
HOUR = 3600.0


@pytest.mark.parametrize("page_size", [100, 15])
@pytest.mark.parametrize(
    "delete_seconds", [(120.0, 240.0), (30.0, 60.0), (15.0, 30.0)], ids=["slow", "fast", "before-the-last-DELETE"]
)
def test_a_burst_of_removals_is_proven_by_lists(page_size: int, delete_seconds: tuple[float, float]) -> None:
    """Each of 90 claims is gone within 10 s of its pool, without GETs, and AKS throttles no call."""

    async def story(sim: Sim) -> None:
        ended: dict[str, float] = {}
        gone: dict[str, float] = {}
        sim.cloud.subscribe(lambda kind, pool: ended.update({pool.name: sim.now}) if kind == "gone" else None)
        await sim.start_controller(policy=Policy(max_creates_per_minute=MANY, max_agent_pools=MANY))
        for name in NAMES:
            await sim.apply(node_claim(name))
        await sim.until(lambda: all(sim.condition(name, "Ready") == "True" for name in NAMES), 1800, "all are Ready")
        await asyncio.sleep(120)  # the buckets are full again
        for name in NAMES:
            await sim.delete_claim(name)

        def all_gone() -> bool:
            gone.update({name: sim.now for name in NAMES if name not in gone and sim.claim(name) is None})
            return len(gone) == MANY

        await sim.until(all_gone, 1800, "all are gone")
        assert max(gone.values()) - max(ended.values()) <= 10.0
        # Each page takes a token of those that DELETEs wait for.
        most = 5.0 if page_size >= MANY else 15.0
        assert statistics.median(gone[name] - ended[name] for name in NAMES) <= most
        assert not pool_calls(sim, "GET", name=None)
        assert not [call for call in sim.audit_log.calls(system="arm") if call.status == 429]

    azure = AzureSettings(
        create_seconds=(60.0, 90.0), delete_seconds=delete_seconds, page_size=page_size, max_agent_pools=MANY + 10
    )
    simulate(story, azure=azure)


@pytest.mark.parametrize(("page_size", "gets", "most_seconds"), [(100, 16, 5.0), (15, 30, 45.0)])
def test_a_burst_of_removals_of_young_machines(page_size: int, gets: int, most_seconds: float) -> None:
    """Claims younger than a minute need few GETs: a LIST that shows the pool of a later PUT is newer than theirs.

    With several pages the others wait for their GET, or for the LIST a minute after their PUT.
    """
    names = NAMES[:50]

    async def story(sim: Sim) -> None:
        ended: dict[str, float] = {}
        gone: dict[str, float] = {}
        sim.cloud.subscribe(lambda kind, pool: ended.update({pool.name: sim.now}) if kind == "gone" else None)
        await sim.start_controller(policy=Policy(max_creates_per_minute=MANY, max_agent_pools=MANY))
        await asyncio.sleep(10)
        for name in names:
            await sim.apply(node_claim(name))
        await sim.until(lambda: len(sim.cloud.pools) == len(names), 30, "all pools are being made")
        await asyncio.sleep(20)
        for name in names:
            await sim.delete_claim(name)

        def all_gone() -> bool:
            gone.update({name: sim.now for name in names if name not in gone and sim.claim(name) is None})
            return len(gone) == len(names)

        await sim.until(all_gone, 1800, "all are gone")
        proofs = [call.target.name for call in pool_calls(sim, "GET", name=None) if call.status == 404]
        assert len(proofs) <= gets
        assert len(proofs) == len(set(proofs)), "one each"
        assert statistics.median(gone[name] - ended[name] for name in names) <= min(most_seconds, 20.0)
        assert max(gone[name] - ended[name] for name in names) <= most_seconds
        assert not [call for call in sim.audit_log.calls(system="arm") if call.status == 429]

    azure = AzureSettings(
        create_seconds=(10.0, 20.0), delete_seconds=(15.0, 30.0), page_size=page_size, max_agent_pools=MANY + 10
    )
    simulate(story, azure=azure)


@pytest.mark.parametrize("delete_seconds", [10.0, 130.0, 400.0])
def test_a_removal_ends_while_lists_fail(delete_seconds: float) -> None:
    """ARM answers every LIST with 503 and each GET as usual: a GET proves the absence within 40 s of the pool's end."""

    async def story(sim: Sim) -> None:
        ended: list[float] = []
        sim.cloud.subscribe(lambda kind, _: ended.append(sim.now) if kind == "gone" else None)
        await up(sim)
        run_pod(sim, "app", node_name(sim))
        sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=errors.html(503)))
        await sim.delete_claim(NAME)
        await sim.until(lambda: sim.claim(NAME) is None, HOUR, "the claim is gone")
        assert sim.now - ended[0] <= 40.0
        assert len(pool_calls(sim, "GET")) <= delete_seconds / 30 + 2

    simulate(story, azure=replace(FAST, delete_seconds=(delete_seconds, delete_seconds)))


@simulated(azure=replace(FAST, delete_seconds=(120.0, 240.0), max_agent_pools=MANY + 10))
async def test_a_burst_of_removals_ends_while_lists_fail(sim: Sim) -> None:
    """Each of 30 claims is gone within two minutes of its pool: their GETs share the budget, and AKS throttles none."""
    ended: dict[str, float] = {}
    gone: dict[str, float] = {}
    sim.cloud.subscribe(lambda kind, pool: ended.update({pool.name: sim.now}) if kind == "gone" else None)
    await sim.start_controller(policy=Policy(max_creates_per_minute=MANY, max_agent_pools=MANY))
    for name in NAMES[:30]:
        await sim.apply(node_claim(name))
    await sim.until(lambda: all(sim.condition(name, "Ready") == "True" for name in NAMES[:30]), 1800, "all Ready")
    await asyncio.sleep(120)
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=errors.html(503)))
    for name in NAMES[:30]:
        await sim.delete_claim(name)

    def all_gone() -> bool:
        gone.update({name: sim.now for name in NAMES[:30] if name not in gone and sim.claim(name) is None})
        return len(gone) == 30

    await sim.until(all_gone, 1800, "all are gone")
    assert max(gone[name] - ended[name] for name in gone) <= 120.0
    assert not [call for call in sim.audit_log.calls(system="arm") if call.status == 429]
