"""Quota that the identity may read: sizes without quota are skipped, and a raised quota is used within a minute."""

import asyncio
import dataclasses

import pytest

from provisioner.simulator.azure.settings import AzureSettings
from tests.world.azure_role import AZURE_ACTIONS, QUOTA_ACTIONS, used_actions
from tests.world.claims import message, puts, ready, wait_for_condition
from tests.world.harness import SIZE, Sim, node_claim, simulated

from .common import EXHAUSTED, FAMILY, HOUR_SECONDS, NO_QUOTA, OTHER, THIRD, all_puts, choosing, pool_size

DENIED = dataclasses.replace(NO_QUOTA, actions=AZURE_ACTIONS)


def usages_read(sim: Sim) -> int:
    return sim.cloud.counts["USAGES"]


@simulated(azure=NO_QUOTA)
async def test_a_raised_quota_ends_the_wait_within_a_minute(sim: Sim) -> None:
    """While claims wait, quota is read each minute and no PUT is sent; when nothing waits, nothing is read."""
    names = [f"gpu{n}" for n in range(3)]
    await sim.start_controller(elect=False)
    await asyncio.sleep(300)
    assert usages_read(sim) == 0
    for name in names:
        await sim.apply(node_claim(name))
        await wait_for_condition(sim, name, "Launched", "False", "QuotaExceeded", within_seconds=400)
    await asyncio.sleep(HOUR_SECONDS / 2)
    sent, read = len(all_puts(sim, names)), usages_read(sim)
    await asyncio.sleep(HOUR_SECONDS / 2)
    assert len(all_puts(sim, names)) == sent
    assert 29 <= usages_read(sim) - read <= 31
    for name in names:
        assert EXHAUSTED in message(sim, name, "Launched")
    sim.cloud.configure(family_cores={FAMILY: 1000})
    await sim.until(lambda: len(all_puts(sim, names)) > sent, 62, "a PUT is sent")
    for name in names:
        await ready(sim, name, within_seconds=900)
    read = usages_read(sim)
    await asyncio.sleep(HOUR_SECONDS)
    assert usages_read(sim) == read
    assert used_actions(sim.cloud.request_log) <= AZURE_ACTIONS | QUOTA_ACTIONS


@simulated(azure=NO_QUOTA)
async def test_sizes_without_quota_are_skipped(sim: Sim) -> None:
    """Two sizes share a quota of 0: after the first refusal the claim goes on to the size of another family."""
    await sim.start_controller(elect=False)
    await sim.apply(choosing("gpu1", SIZE, OTHER, THIRD))
    await ready(sim, "gpu1", within_seconds=900)
    assert pool_size(sim, "gpu1") == THIRD
    assert len(puts(sim, "gpu1")) == 2


@simulated(azure=AzureSettings(regional_cores=60, actions=AZURE_ACTIONS | QUOTA_ACTIONS))
async def test_a_claim_without_quota_holds_no_turn(sim: Sim) -> None:
    """The region has 60 vCPUs: the older claim needs 96 and is not tried; the younger one, with 24, is created."""
    await sim.start_controller(elect=False)
    await sim.apply(choosing("big", "Standard_NC96ads_A100_v4"))
    await wait_for_condition(sim, "big", "Launched", "False", "QuotaExceeded", within_seconds=120)
    await asyncio.sleep(300)
    sent = len(puts(sim, "big"))
    await sim.apply(choosing("small", SIZE))
    await ready(sim, "small", within_seconds=900)
    assert len(puts(sim, "big")) == sent == 1
    assert "limit 60, used" in message(sim, "big", "Launched")


@simulated(azure=AzureSettings(family_cores={FAMILY: 71}, actions=AZURE_ACTIONS | QUOTA_ACTIONS))
async def test_claims_share_what_is_left(sim: Sim) -> None:
    """One claim that needs 96 vCPUs causes the reading; of four with 24, two are requested, the others send no PUT."""
    await sim.start_controller(elect=False)
    await sim.apply(choosing("big", "Standard_NC96ads_A100_v4"))
    await wait_for_condition(sim, "big", "Launched", "False", "QuotaExceeded", within_seconds=120)
    await asyncio.sleep(61)
    names = [f"gpu{n}" for n in range(4)]
    for name in names:
        await sim.apply(choosing(name, SIZE))
    await asyncio.sleep(HOUR_SECONDS)
    assert len(all_puts(sim, names)) == 2
    for name in (one for one in names if not puts(sim, one)):
        assert "limit 71, used 48, needed 24" in message(sim, name, "Launched")
    sent = [one for one in names if puts(sim, one)]
    await sim.delete_claim(sent[0])
    await sim.until(lambda: len(all_puts(sim, names)) == 3, 900, "the quota of a removed machine is used")


@pytest.mark.parametrize("granted_later", [False, True])
@simulated(azure=DENIED)
async def test_without_the_right_nothing_changes(sim: Sim, *, granted_later: bool) -> None:
    """One refused read an hour; the offering is tried again after at most five minutes."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(HOUR_SECONDS - 60)
    assert usages_read(sim) == 1
    assert len(puts(sim, "gpu1")) >= 6
    if granted_later:
        sim.cloud.configure(actions=AZURE_ACTIONS | QUOTA_ACTIONS)
        await asyncio.sleep(600)
        assert usages_read(sim) >= 5
    sim.cloud.configure(family_cores={FAMILY: 1000})
    await ready(sim, "gpu1", within_seconds=900)
