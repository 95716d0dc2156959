"""Several offerings for one claim, and one unavailable offering for several claims: what is tried, and when."""

import asyncio
from itertools import pairwise

import pytest

from provisioner.api import labels
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import CLAIMS, condition, events, message, puts, ready, removed, wait_for_condition
from tests.world.harness import SIZE, Sim, node_claim, simulate, simulated

from .common import EXHAUSTED, HOUR_SECONDS, OTHER, THIRD, all_puts, choosing, pool_size


@pytest.mark.parametrize("refused", ["at once", "later"])
@simulated()
async def test_the_next_size_is_tried_after_a_shortage(sim: Sim, refused: str) -> None:
    """Sizes in order of preference; an Event for each attempt and cause, and no terminal condition."""
    fault = faults.quota_preflight if refused == "at once" else faults.quota
    sim.cloud.faults += [fault(size=SIZE), fault(size=OTHER)]
    await sim.start_controller(elect=False)
    await sim.apply(choosing("gpu1", SIZE, OTHER, THIRD))
    uid = await ready(sim, "gpu1", within_seconds=1200)
    assert pool_size(sim, "gpu1") == THIRD
    assert sim.claim("gpu1")["metadata"]["labels"][labels.INSTANCE_TYPE] == THIRD
    tries = [event["message"] for event in events(sim, "gpu1") if event["reason"] == "TryingOffering"]
    assert sorted(text.split(",")[0] for text in tries) == sorted(f"creating {s}" for s in (SIZE, OTHER, THIRD))
    causes = [event["message"] for event in events(sim, "gpu1") if event["reason"] == "QuotaExceeded"]
    assert causes
    assert not any(EXHAUSTED in cause for cause in causes)
    (got,) = (event["message"] for event in events(sim, "gpu1", "Launched"))
    assert got.endswith(f"; {THIRD} is choice 3 of 3, {SIZE} failed with QuotaExceeded")
    await removed(sim, "gpu1")
    assert sim.audit_log.deletion_order(uid)[-3:] == ["pool", "node", "claim"]
    await sim.settled()


@simulated()
async def test_zones_are_tried_one_after_the_other(sim: Sim) -> None:
    """A zone without capacity costs one attempt; the machine is created in the next one."""
    sim.cloud.faults.append(faults.capacity("ZonalAllocationFailed", zone="2"))
    await sim.start_controller(elect=False)
    await sim.apply(choosing("gpu1", SIZE, zones=["westeurope-2", "westeurope-1"]))
    await ready(sim, "gpu1", within_seconds=1200)
    assert sim.cloud.pools["gpu1"].properties["availabilityZones"] == ["1"]
    assert sim.claim("gpu1")["metadata"]["labels"][labels.ZONE] == "westeurope-1"


@simulated()
async def test_spot_first_then_on_demand(sim: Sim) -> None:
    """A claim that lists spot before on-demand gets on-demand if there is no spot capacity."""
    sim.cloud.faults.append(faults.capacity(priority="Spot"))
    await sim.start_controller(elect=False)
    await sim.apply(choosing("gpu1", SIZE, terms=["spot", "on-demand"]))
    await sim.apply(choosing("gpu2", SIZE, terms=["spot"]))
    await ready(sim, "gpu1", within_seconds=1200)
    assert sim.claim("gpu1")["metadata"]["labels"][labels.CAPACITY_TYPE] == "on-demand"
    await wait_for_condition(sim, "gpu2", "Launched", "False", "AllocationFailed")


@simulated()
async def test_exhausted_offerings_are_reported_and_retried(sim: Sim) -> None:
    """The words that KAITO's RAG engine ends at, behind the last cause; later the machine comes all the same."""
    sim.cloud.faults.append(faults.capacity())
    await sim.start_controller(elect=False)
    claim = await sim.apply(choosing("gpu1", SIZE, OTHER))
    await sim.until(lambda: EXHAUSTED in message(sim, "gpu1", "Launched"), 300, "all is exhausted")
    reported = condition(sim.claim("gpu1"), "Launched")
    assert (reported["status"], reported["reason"]) == ("False", "AllocationFailed")
    assert reported["message"].startswith("AllocationFailed: ")
    assert len(reported["message"].encode()) <= 256
    sim.cloud.faults.clear()
    assert await ready(sim, "gpu1", within_seconds=1200) == claim["metadata"]["uid"]


@pytest.mark.parametrize("refused", ["at once", "later"])
@simulated()
async def test_many_claims_cost_one_put_a_step(sim: Sim, refused: str) -> None:
    """No quota for an hour and twelve claims: after the first failure one claim retries for all."""
    names = [f"gpu{n}" for n in range(12)]
    fault = faults.quota_preflight() if refused == "at once" else faults.quota()
    sim.cloud.faults.append(fault)
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(names[0]))
    await wait_for_condition(sim, names[0], "Launched", "False", "QuotaExceeded", within_seconds=120)
    for name in names[1:]:
        await sim.apply(node_claim(name))
    began = sim.now
    await asyncio.sleep(HOUR_SECONDS)
    steps = [at for at in all_puts(sim, names) if at > began]
    assert 6 <= len(steps) <= 15
    gaps = [later - sooner for sooner, later in pairwise(steps)]
    assert gaps == sorted(gaps) or min(gaps) >= 60.0
    for name in names:
        assert EXHAUSTED in message(sim, name, "Launched"), name
    sim.cloud.faults.clear()
    for name in names:
        await ready(sim, name, within_seconds=1500)


@simulated()
async def test_the_longest_waiting_claim_tries_for_all_and_its_deletion_passes_the_turn(sim: Sim) -> None:
    """The oldest claim retries for all; after its deletion the next oldest does."""
    sim.cloud.faults.append(faults.quota_preflight())
    metrics = Metrics()
    await sim.start_controller(elect=False, metrics=metrics)
    for name in ("zebra", "camel", "apple"):
        await sim.apply(node_claim(name))
        await asyncio.sleep(2)
    await asyncio.sleep(400)
    tries = {name: len(puts(sim, name)) for name in ("zebra", "camel", "apple")}
    assert tries["zebra"] >= 3
    assert tries["camel"] == tries["apple"] == 0
    terms = {"instance_type": SIZE, "capacity_type": "on-demand"}
    counted = metrics.registry.get_sample_value
    assert counted("gpu_provisioner_offering_tries_total", terms) == tries["zebra"]
    left = counted("gpu_provisioner_offering_unavailable_seconds", {**terms, "zone": "any"})
    assert left is not None
    assert 0 < left <= 300
    await removed(sim, "zebra")
    await asyncio.sleep(HOUR_SECONDS)
    assert len(puts(sim, "camel")) >= 2
    assert puts(sim, "apple") == []


@simulated()
async def test_a_restart_forgets_no_shortage(sim: Sim) -> None:
    """A new process reads unavailable offerings from the claims' conditions, and one claim retries for all."""
    names = [f"gpu{n}" for n in range(5)]
    sim.cloud.faults.append(faults.quota_preflight())
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(names[0]))
    await wait_for_condition(sim, names[0], "Launched", "False", "QuotaExceeded", within_seconds=20)
    for name in names[1:]:
        await sim.apply(node_claim(name))
    await sim.until(lambda: len(all_puts(sim, names)) == 3, 300, "tried three times: now it rests for 2 min")
    await asyncio.sleep(10)
    sim.crash()
    await sim.start_controller("ctl1", elect=False)
    await asyncio.sleep(100)
    assert len(all_puts(sim, names)) == 3
    await asyncio.sleep(40)
    assert len(all_puts(sim, names)) == 4
    sim.cloud.faults.clear()
    for name in names:
        await ready(sim, name, within_seconds=1500)


@pytest.mark.parametrize("refused", ["at once", "later"])
@simulated()
async def test_a_restart_does_not_shorten_the_longest_delay(sim: Sim, refused: str) -> None:
    """Five minutes, also for a quota of 0: the claims' conditions state it, and a new process retries as often."""
    names = [f"gpu{n}" for n in range(3)]
    none = faults.quota_exceeded("standardNCADSA100v4Family Cores", limit=0)
    sim.cloud.fail_next_create(none["code"], none["message"], sync=refused == "at once")
    sim.cloud.faults[0].times = ALWAYS
    await sim.start_controller(elect=False)
    for name in names:
        await sim.apply(node_claim(name))
    await asyncio.sleep(HOUR_SECONDS / 2)
    tries = all_puts(sim, names)
    assert 280 <= tries[-1] - tries[-2] <= 700
    for number in range(1, 6):
        sim.crash(f"ctl{number - 1}")
        await sim.start_controller(f"ctl{number}", elect=False)
        await asyncio.sleep(400)
    assert 4 <= len(all_puts(sim, names)) - len(tries) <= 7


@simulated()
async def test_a_raised_quota_of_zero_is_used_within_five_minutes_and_at_once_if_annotated(sim: Sim) -> None:
    """An annotation on any of the claims: one PUT at once, for the oldest claim, then all others."""
    names = [f"gpu{n}" for n in range(3)]
    none = faults.quota_exceeded("standardNCADSA100v4Family Cores", limit=0)
    sim.cloud.fail_next_create(none["code"], none["message"], sync=True)
    sim.cloud.faults[0].times = ALWAYS
    await sim.start_controller(elect=False)
    for name in names:
        await sim.apply(node_claim(name))
        await asyncio.sleep(2)
    await asyncio.sleep(HOUR_SECONDS / 2)
    tried = len(all_puts(sim, names))
    await sim.until(lambda: len(all_puts(sim, names)) == tried + 1, 310, "another attempt fails")
    before = tried + 1
    sim.cloud.faults.clear()
    await asyncio.sleep(120)
    assert len(all_puts(sim, names)) == before
    sim.store.patch(CLAIMS, names[2], {"metadata": {"annotations": {labels.RETRY: "quota raised"}}})
    await sim.until(lambda: len(all_puts(sim, names)) > before, 10, "a PUT at once")
    for name in names:
        await ready(sim, name, within_seconds=900)
    assert puts(sim, names[0])[-1] < min(puts(sim, names[1])[-1], puts(sim, names[2])[-1])
    assert len(all_puts(sim, names)) == before + len(names)


SMALL, BIG = "Standard_NC24ads_A100_v4", "Standard_NC96ads_A100_v4"
SHORT_OF: dict[str, tuple[AzureSettings, str]] = {
    "the region's cores": (AzureSettings(regional_cores=60), "on-demand"),
    "the region's cores at once": (AzureSettings(regional_cores=60, quota_check="preflight"), "on-demand"),
    "the spot cores": (AzureSettings(low_priority_cores=60), "spot"),
}


@pytest.mark.parametrize("short", SHORT_OF)
def test_the_smaller_size_is_tried_when_the_bigger_exceeds_a_total(short: str) -> None:
    """96 cores exceed what is left of a total over all sizes, 24 do not."""
    azure, term = SHORT_OF[short]

    async def story(sim: Sim) -> None:
        await sim.start_controller(elect=False)
        await sim.apply(choosing("gpu1", BIG, SMALL, terms=[term]))
        await ready(sim, "gpu1", within_seconds=1200)
        assert pool_size(sim, "gpu1") == SMALL
        assert len(puts(sim, "gpu1")) == 2

    simulate(story, azure=azure)


@simulated(azure=AzureSettings(regional_cores=60))
async def test_a_big_claim_does_not_keep_a_smaller_one_from_its_turn(sim: Sim) -> None:
    """The older claim allows only a size that exceeds the region's cores; the younger one's size does not."""
    await sim.start_controller(elect=False)
    await sim.apply(choosing("big", BIG))
    await wait_for_condition(sim, "big", "Launched", "False", "QuotaExceeded")
    await sim.apply(choosing("small", SMALL))
    await ready(sim, "small", within_seconds=1200)
    assert EXHAUSTED in message(sim, "big", "Launched")


@simulated()
async def test_the_other_zone_is_tried_when_a_size_is_not_available_in_one(sim: Sim) -> None:
    """SkuNotAvailable does not always name the zone; the claim tries all that it allows before it tries one again."""
    sim.cloud.faults.append(faults.capacity("SkuNotAvailable", zone="1"))
    await sim.start_controller(elect=False)
    await sim.apply(choosing("gpu1", SIZE, zones=["westeurope-1", "westeurope-2"]))
    await ready(sim, "gpu1", within_seconds=1200)
    assert sim.cloud.pools["gpu1"].properties["availabilityZones"] == ["2"]
    assert len(puts(sim, "gpu1")) == 2


@simulated()
async def test_the_next_size_is_tried_after_a_shortage_inside_a_bad_request(sim: Sim) -> None:
    """AKS quotes the error of Compute as JSON in the message of a 400 (https://github.com/Azure/AKS/issues/1444)."""
    sim.cloud.faults.append(faults.size_not_available("gpu1", size=SIZE))
    await sim.start_controller(elect=False)
    await sim.apply(choosing("gpu1", SIZE, OTHER))
    await ready(sim, "gpu1", within_seconds=1200)
    assert pool_size(sim, "gpu1") == OTHER
    (got,) = (event["message"] for event in events(sim, "gpu1", "Launched"))
    assert got.endswith(f"; {OTHER} is choice 2 of 2, {SIZE} failed with SkuNotAvailable")


@simulated()
async def test_a_full_subnet_is_tried_by_one_claim_for_all(sim: Sim) -> None:
    """A full subnet affects every size: one PUT per step, every claim states it, and free addresses serve all."""
    names = [f"gpu{n}" for n in range(8)]
    full = faults.error("SubnetIsFull", "Subnet aks-subnet does not have enough capacity for 1 IP addresses.")
    sim.cloud.faults.append(Fault(verb="PUT", times=ALWAYS, failure=Failure(error=full)))
    await sim.start_controller(elect=False)
    await sim.apply(choosing(names[0], SIZE, OTHER))
    await wait_for_condition(sim, names[0], "Launched", "False", "SubnetIsFull", within_seconds=120)
    for name in names[1:]:
        await sim.apply(choosing(name, OTHER, SIZE))
    began = sim.now
    await asyncio.sleep(HOUR_SECONDS / 2)
    assert 2 <= len([at for at in all_puts(sim, names) if at > began]) <= 5
    sim.crash()
    await sim.start_controller("ctl1", elect=False)
    for name in names:
        await wait_for_condition(sim, name, "Launched", "False", "SubnetIsFull", within_seconds=120)
        assert EXHAUSTED not in message(sim, name, "Launched")
        assert "use a larger one" in message(sim, name, "Launched")
    before = len(all_puts(sim, names))
    await asyncio.sleep(HOUR_SECONDS / 2)
    assert 2 <= len(all_puts(sim, names)) - before <= 5
    sim.cloud.faults.clear()
    for name in names:
        await ready(sim, name, within_seconds=1500)
