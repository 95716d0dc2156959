"""Machines that fail in the same way one after the other, however slowly: repair stops before all are replaced."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.repair_policy import RepairPolicy
from provisioner.api.time import rfc3339
from provisioner.simulator.azure.settings import AzureSettings
from tests import gkm
from tests.world.garbagecollection.common import fleet
from tests.world.harness import EPOCH, Sim, node_claim, simulated
from tests.world.nodeclaim.common import REFERENCE, rule
from tests.world.transcript import FAST, MINUTE, claim_condition, node_name, refuse

from .common import annotate, deleted, gone, plugin, set_condition, unschedulable

pytestmark = pytest.mark.matrix(quick=0)

# Machines with large GPUs take 10 to 12 minutes to be created.
SLOW = AzureSettings(create_seconds=(600.0, 720.0), delete_seconds=(240.0, 300.0))


async def bought(sim: Sim, most: int, *, annotations: Any = None, **claim: Any) -> int:
    """An owner creates the next claim when its last one is gone: how many until one is kept for 70 min."""
    for number in range(most):
        made = node_claim(f"gpu{number}", **claim)
        made["metadata"]["annotations"] = annotations or {}
        await sim.apply(made)
        try:
            await sim.until(partial(deleted, sim, f"gpu{number}"), 70 * MINUTE, "it is replaced")
        except AssertionError:
            return number + 1
        await sim.until(partial(gone, sim, f"gpu{number}"), 30 * MINUTE, "it is gone")
    return most


def ready(sim: Sim, name: str) -> bool:
    return sim.condition(name, "Ready") == "True"


@simulated(azure=FAST)
async def test_a_readiness_rule_about_a_kind_that_is_not_installed(sim: Sim) -> None:
    """With onTimeout Replace: what cannot be read is not known to be missing, so no machine is replaced for it."""
    await sim.start_controller()
    found = {"group": gkm.GROUP, "version": gkm.VERSION, "resource": "gkmcachenodes", "namespace": "default"}
    until = {"object": {**found, "jsonPath": "{.status.caches.vllm.*.compatibleGPUs[*]}"}}
    spec = {"readiness": [rule(until, onTimeout="Replace")]}
    kind = {"apiVersion": "gpu-provisioner.sh/v1alpha1", "kind": "AgentPoolNodeClass"}
    await sim.apply({**kind, "metadata": {"name": "rules"}, "spec": spec})
    assert await bought(sim, 3, nodeClassRef=REFERENCE) == 1


@simulated(azure=FAST)
async def test_a_readiness_rule_about_devices_that_may_not_be_read(sim: Sim) -> None:
    """Without the right to list ResourceSlices, no devices are known to be missing either."""
    refuse(sim, lambda call: call.target.kind == "resourceslices", 403, "Forbidden")
    await sim.start_controller()
    spec = {"readiness": [rule({"devices": {"driver": "dra.net"}}, onTimeout="Replace")]}
    kind = {"apiVersion": "gpu-provisioner.sh/v1alpha1", "kind": "AgentPoolNodeClass"}
    await sim.apply({**kind, "metadata": {"name": "rules"}, "spec": spec})
    assert await bought(sim, 3, nodeClassRef=REFERENCE) == 1


@pytest.mark.parametrize("word", ["", "enabled"])
@simulated(azure=SLOW)
async def test_a_bad_image_on_a_size_that_starts_slowly(sim: Sim, word: str) -> None:
    """Two are replaced, 35 minutes apart; the third is kept, also if a template allows the repair of every machine."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    await sim.start_controller()
    assert await bought(sim, 6, annotations={labels.REPAIR: word} if word else None) == 3
    assert claim_condition(sim, "NodeHealthy", "gpu2")[1] == "RepairSuspended"


@simulated(azure=FAST)
async def test_a_machine_that_works_ends_a_row_of_failures(sim: Sim) -> None:
    """Two machines never get their GPUs, the third does: the fourth is replaced again."""
    plugin(sim)
    await sim.start_controller()
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    for number in range(4):
        name = f"gpu{number}"
        sim.nodes.plugin_delay_seconds = 10.0 if number == 2 else 24 * 60 * MINUTE
        await sim.apply(node_claim(name))
        if number == 2:
            await sim.until(lambda: sim.condition("gpu2", "Ready") == "True", 20 * MINUTE, "it is Ready")
            continue
        await sim.until(partial(deleted, sim, name), 35 * MINUTE, "it is replaced")
        await sim.until(partial(gone, sim, name), 10 * MINUTE, "it is gone")


@simulated(azure=FAST)
async def test_a_success_of_another_owner_ends_no_row_of_failures(sim: Sim) -> None:
    """A batch owner has a machine that works after each one of the other, whose template is wrong."""
    plugin(sim)
    await sim.start_controller()
    for number in range(3):
        bad, good = f"bad{number}", f"good{number}"
        sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
        await sim.apply(node_claim(bad, labels={labels.KAITO_WORKSPACE: "bad"}))
        if number == 2:
            break
        await sim.until(partial(deleted, sim, bad), 35 * MINUTE, "it is replaced")
        sim.nodes.plugin_delay_seconds = 10.0
        await sim.apply(node_claim(good, labels={labels.KAITO_WORKSPACE: "good"}))
        await sim.until(partial(ready, sim, good), 20 * MINUTE, "it is Ready")
        await sim.delete_claim(good)
        await sim.until(partial(gone, sim, good), 30 * MINUTE, "it is gone")
    await asyncio.sleep(70 * MINUTE)
    assert not deleted(sim, "bad2")
    assert claim_condition(sim, "NodeHealthy", "bad2")[1] == "RepairSuspended"


@simulated(azure=FAST)
async def test_a_loop_of_machines_that_fail_later_than_an_hour(sim: Sim) -> None:
    """Each is NotReady 65 min after it was Ready, as if its workload filled the disk: the fifth is kept."""
    await sim.start_controller()
    for number in range(5):
        name = f"gpu{number}"
        await sim.apply(node_claim(name))
        await sim.until(partial(ready, sim, name), 20 * MINUTE, "it is Ready")
        await asyncio.sleep(65 * MINUTE)
        sim.nodes.set_ready(node_name(sim, name), None)
        if number == 2:
            sim.crash()
            await sim.start_controller("ctl1")
        if number < 4:
            await sim.until(partial(deleted, sim, name), 20 * MINUTE, "it is replaced")
            await sim.until(partial(gone, sim, name), 30 * MINUTE, "it is gone")
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim, "gpu4")
    assert claim_condition(sim, "NodeHealthy", "gpu4")[1] == "RepairSuspended"
    assert "4 machines" in claim_condition(sim, "NodeHealthy", "gpu4")[2]


@simulated(azure=FAST)
async def test_a_machine_that_is_kept_does_not_suspend_others_for_ever(sim: Sim) -> None:
    """The third of three failures is kept, which nobody looks at; the next machine works, and one later fails."""
    plugin(sim)
    await sim.start_controller()
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    assert await bought(sim, 3) == 3
    sim.nodes.plugin_delay_seconds = 10.0
    await sim.apply(node_claim("works"))
    await sim.until(lambda: sim.condition("works", "Ready") == "True", 20 * MINUTE, "it is Ready")
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    await sim.apply(node_claim("fails"))
    await sim.until(partial(deleted, sim, "fails"), 35 * MINUTE, "it is replaced")
    assert claim_condition(sim, "NodeHealthy", "gpu2")[1] == "RepairSuspended"


@simulated(azure=FAST)
async def test_a_row_of_failures_that_ended_has_ended_for_the_next_process(sim: Sim) -> None:
    """The machine that worked is gone when another process counts."""
    plugin(sim)
    await sim.start_controller()
    for number in range(4):
        name = f"gpu{number}"
        sim.nodes.plugin_delay_seconds = 10.0 if number == 2 else 24 * 60 * MINUTE
        await sim.apply(node_claim(name))
        if number != 2:
            await sim.until(partial(deleted, sim, name), 35 * MINUTE, "it is replaced")
        else:
            await sim.until(lambda: sim.condition("gpu2", "Ready") == "True", 20 * MINUTE, "it is Ready")
            await asyncio.sleep(MINUTE)
            await sim.request("DELETE", "/apis/karpenter.sh/v1/nodeclaims/gpu2")
        await sim.until(partial(gone, sim, name), 10 * MINUTE, "it is gone")
        if number == 2:
            sim.crash()
            await sim.start_controller("ctl1")


@pytest.mark.parametrize("what", ["an agent", "an agent that a user believes", "the plugin"])
@simulated(azure=FAST)
async def test_a_rollout_that_is_wrong_about_one_node_after_the_other(sim: Sim, what: str) -> None:
    """A new node problem detector reports GPUMissing wherever it runs, or a new plugin runs and shows no device: one
    Node in 25 min. The fleet is neither replaced nor cordoned whole.
    """
    row = RepairPolicy(condition="GPUMissing", seconds=600.0, action="Replace", agreement="None")
    policy = Policy(repair_policies=(row,) if what == "an agent that a user believes" else ())
    plugin(sim)
    names = await fleet(sim, 6, policy=policy)
    await asyncio.sleep(90 * MINUTE)
    for name in names:
        if what == "the plugin":
            sim.nodes.kill_plugin(node_name(sim, name))
        else:
            set_condition(sim, "GPUMissing", "True", name)
        await asyncio.sleep(25 * MINUTE)
    left = [name for name in names if not deleted(sim, name)]
    assert len(left) >= (6 if what == "an agent" else 4)
    assert sum(unschedulable(sim, name) for name in left) <= 2
    if what != "an agent":
        kind = "Initialized" if what == "the plugin" else "NodeHealthy"
        assert "look for a rollout" in claim_condition(sim, kind, names[-1])[2]


@simulated(azure=FAST)
async def test_a_repair_that_is_allowed_for_a_time(sim: Sim) -> None:
    """A kept machine is replaced if a user states a time until which it may be, and the next one is kept again."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    await sim.start_controller()
    assert await bought(sim, 6) == 3
    await annotate(sim, "gpu2", repair=_in(sim, 60))
    await sim.until(lambda: deleted(sim, "gpu2"), 5 * MINUTE, "a user allows its repair")


def _in(sim: Sim, minutes: float) -> str:
    """That time from now, as RFC 3339."""
    return rfc3339(EPOCH + timedelta(seconds=sim.now + minutes * MINUTE))
