"""Spot machines: their creation, their eviction by Azure, and the effect on their claims."""

import asyncio

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import faults
from tests.world.claims import condition, created, events, message, node_of, ready, versions, wait_for_condition, word
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.kaito_actor import Workspace, at_work
from tests.world.kaito_predicates import Owner
from tests.world.kaito_stage import QUICK, Most, actor_of, claims_of, serves

from .common import spot_claim, spot_fleet

HOUR_SECONDS = 3600.0
TAINT = {"key": labels.AKS_SPOT, "value": "spot", "effect": "NoSchedule"}


async def gone(sim: Sim, name: str, within_seconds: float = 900.0) -> None:
    """Wait until claim, pool and Node are gone."""
    await sim.until(
        lambda: sim.claim(name) is None and name not in sim.cloud.pools and not sim.nodes_of(name),
        within_seconds,
        f"nothing of {name} is left",
    )


@simulated()
async def test_a_spot_machine_has_akss_label_and_taint(sim: Sim) -> None:
    """The pool is created as spot, with deletion on eviction; AKS's label and taint stay on the Node."""
    await sim.start_controller()
    await sim.apply(spot_claim("gpu1"))
    await ready(sim, "gpu1")
    requested = sim.cloud.pools["gpu1"].properties
    terms = ("scaleSetPriority", "scaleSetEvictionPolicy", "spotMaxPrice")
    assert [requested[key] for key in terms] == ["Spot", "Delete", -1.0]
    [node] = sim.nodes_of("gpu1")
    assert node["metadata"]["labels"][labels.AKS_SPOT] == "spot"
    assert [taint for taint in node["spec"]["taints"] if taint["key"] == labels.AKS_SPOT] == [TAINT]
    claim = sim.claim("gpu1")
    assert claim is not None
    assert claim["metadata"]["labels"][labels.CAPACITY_TYPE] == "spot"


@pytest.mark.parametrize("fate", ["alive", "restarted"])
@simulated()
async def test_claim_and_pool_of_an_evicted_machine_are_removed(sim: Sim, fate: str) -> None:
    """The pool's count is 0: the claim states the eviction and is removed with everything that is billed."""
    await sim.start_controller(elect=False)
    claim = await sim.apply(spot_claim("gpu1"))
    uid = await ready(sim, "gpu1")
    seen, taken = versions(sim, "gpu1"), sim.now
    if fate == "restarted":
        sim.crash()
    sim.cloud.evict("gpu1")
    if fate == "restarted":
        await asyncio.sleep(120)
        await sim.start_controller("ctl1", elect=False)
    await gone(sim, "gpu1")
    assert sim.now - taken <= 600
    words = [word(one.obj, "Initialized") for one in seen if one.obj is not None]
    assert ("False", "SpotEvicted") in words
    last = next(one.obj for one in reversed(seen) if one.obj is not None)
    reported = condition(last, "Initialized")["message"]
    assert reported.startswith("spot VM of agent pool gpu1 was evicted, observed at 12:")
    assert len(reported.encode()) <= 256
    assert [event["type"] for event in events(sim, "gpu1", "SpotEvicted")] == ["Warning"] * 2
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    assert created(sim, "gpu1") == 1
    assert claim["metadata"]["uid"] == uid
    await sim.settled()


@simulated()
async def test_a_mass_eviction_passes_the_circuit_breaker(sim: Sim) -> None:
    """Azure evicts whole sizes: these machines are removed past the circuit breaker; the others stay."""
    spots = await spot_fleet(sim)
    for name in spots:
        sim.cloud.evict(name)
    for name in spots:
        await gone(sim, name)
    assert not any(events(sim, name, "RemovalRestricted") for name in spots)
    assert sim.condition("steady", "Ready") == "True"
    await sim.settled()


@pytest.mark.parametrize("case", ["announced", "unannounced"])
@simulated()
async def test_a_machine_that_azure_replaces_by_itself_is_not_the_claims(sim: Sim, case: str) -> None:
    """The pool is refilled and the old Node is deleted: the claim states the eviction if announced, else NodeLost."""
    await sim.start_controller(elect=False)
    await sim.apply(spot_claim("gpu1"))
    await ready(sim, "gpu1")
    if case == "announced":
        node = await node_of(sim, "gpu1")
        sim.nodes.set_condition(node, "VMEventScheduled", "True", "PreemptScheduled", "Preempt at 12:30")
        await asyncio.sleep(20)
        assert sim.condition("gpu1", "Ready") == "True"
    seen = versions(sim, "gpu1")
    sim.cloud.evict("gpu1", refill_after_seconds=2 * HOUR_SECONDS)
    await gone(sim, "gpu1")
    reasons = {word(one.obj, "Initialized")[1] for one in seen if one.obj is not None}
    assert ("SpotEvicted" in reasons) == (case == "announced")
    assert ("NodeLost" in reasons) == (case == "unannounced")
    await sim.settled()


@simulated()
async def test_an_on_demand_pool_scaled_to_zero_is_no_eviction(sim: Sim) -> None:
    """A missing machine is an eviction only for spot pools."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    seen = versions(sim, "gpu1")
    sim.cloud.evict("gpu1")
    await sim.until(lambda: sim.condition("gpu1", "Initialized") != "True", 120, "it is not usable")
    await asyncio.sleep(600)
    assert "SpotEvicted" not in {word(one.obj, "Initialized")[1] for one in seen if one.obj is not None}
    assert not events(sim, "gpu1", "SpotEvicted")


@simulated(**QUICK)
async def test_kaito_replaces_an_evicted_machine_once(sim: Sim) -> None:
    """KAITO creates one new claim when the old one is gone; never two machines that are not deleting."""
    owner = Owner(kind="workspace", name="workspace-spot", size=SIZE, terms="spot", labels={"apps": "spot"})
    await sim.start_controller()
    workspace = actor_of(sim, owner)
    assert isinstance(workspace, Workspace)
    async with at_work(workspace):
        await serves(sim, workspace)
        [claim] = claims_of(sim, owner)
        most = Most(sim)
        pool = claim["metadata"]["name"]
        seen = versions(sim, pool)
        sim.cloud.evict(pool)
        await gone(sim, pool)
        await serves(sim, workspace)
        await asyncio.sleep(HOUR_SECONDS)
        assert ("False", "SpotEvicted") in [word(one.obj, "Initialized") for one in seen if one.obj is not None]
        assert most.staying == 1
        assert len(claims_of(sim, owner)) == 1
        assert len(sim.cloud.put_log) == 2


@simulated()
async def test_exhausted_spot_capacity_is_reported_after_an_eviction_too(sim: Sim) -> None:
    """The new claim finds no spot capacity: it reports it and backs off."""
    await sim.start_controller(elect=False)
    await sim.apply(spot_claim("gpu1"))
    await ready(sim, "gpu1")
    sim.cloud.faults.append(faults.capacity(priority="Spot"))
    sim.cloud.evict("gpu1")
    await gone(sim, "gpu1")
    await sim.apply(spot_claim("gpu2"))
    await wait_for_condition(sim, "gpu2", "Launched", "False", "AllocationFailed")
    assert message(sim, "gpu2", "Launched").startswith("AllocationFailed: ")
    sim.cloud.faults.clear()
    await ready(sim, "gpu2", within_seconds=1200)
