"""Clocks that are wrong: no machine is replaced for a time that this process has not observed at least by half."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.repair_policy import RepairPolicy
from provisioner.simulator import gate_invariants
from tests.world import harness
from tests.world.garbagecollection.common import one
from tests.world.harness import Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME
from tests.world.nodeclaim.common import HEALTHY, rule, start
from tests.world.transcript import FAST, MINUTE, node_name

from .common import EIGHT, deleted, plugin, train, unschedulable

AHEAD = timedelta(minutes=40)
HOUR = 60 * MINUTE


async def succeeded(sim: Sim, monkeypatch: pytest.MonkeyPatch, ahead: timedelta = AHEAD, **options: Any) -> None:
    """Another process takes over, whose clock is ahead."""
    sim.crash()
    monkeypatch.setattr(harness, "EPOCH", harness.EPOCH + ahead)
    await sim.start_controller("ctl1", **options)


@simulated(azure=FAST)
async def test_a_machine_without_a_node(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pool has run for nine minutes; it is replaced once the new leader has watched it for half of 15 min."""
    sim.nodes.never_register(NAME)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Launched") == "True", 400, "its pool runs")
    await asyncio.sleep(9 * MINUTE)
    await succeeded(sim, monkeypatch)
    await asyncio.sleep(7 * MINUTE)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 3 * MINUTE, "it is replaced")


@simulated(azure=FAST)
async def test_a_node_that_is_not_ready(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced once the new leader has watched it for half of 10 min."""
    await one(sim)
    sim.nodes.set_ready(node_name(sim), None)
    await asyncio.sleep(MINUTE)
    await succeeded(sim, monkeypatch)
    await asyncio.sleep(4 * MINUTE)
    assert not deleted(sim)
    await sim.until(lambda: deleted(sim), 8 * MINUTE, "it is replaced")


@simulated()
async def test_a_readiness_rule_with_replace(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its timeout is half an hour, of which the new leader watches at least a half."""
    await start(sim, rule(HEALTHY, onTimeout="Replace", timeoutSeconds=1800))
    await sim.until(lambda: sim.condition("gpu1", "Registered") == "True", 600, "it is registered")
    await asyncio.sleep(16 * MINUTE)
    await succeeded(sim, monkeypatch)
    await asyncio.sleep(14 * MINUTE)
    assert not deleted(sim, "gpu1")
    await sim.until(lambda: deleted(sim, "gpu1"), 4 * MINUTE, "it is replaced")


# Whose clock, how far ahead, and the minutes after that in which the pods are waited for at least.
PODS = [
    ("a new leader", 25, 59),
    ("a new leader", -25, 119),
    ("the clock is set", 25, 99),
    ("the clock is set", -25, 99),
]


@pytest.mark.parametrize(("case", "hours", "minutes"), PODS)
def test_pods_of_a_machine_that_works(monkeypatch: pytest.MonkeyPatch, case: str, hours: int, minutes: int) -> None:
    """They are waited for up to two hours: by one process whatever its clock shows, by a new leader at least one."""
    row = RepairPolicy(signal="GpuPartial", seconds=10 * MINUTE, action="Replace", pods_seconds=2 * HOUR)
    policy = Policy(repair_policies=(row,))

    async def story(sim: Sim) -> None:
        plugin(sim)
        await sim.start_controller(policy=policy)
        await sim.apply(node_claim(NAME, size=EIGHT))
        await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "it is Ready")
        train(sim, node_name(sim), 4)
        sim.nodes.set_unhealthy_gpus(node_name(sim), 1)
        await asyncio.sleep(36 * MINUTE)
        assert unschedulable(sim)
        if case == "a new leader":
            await succeeded(sim, monkeypatch, timedelta(hours=hours), policy=policy)
        else:
            sim.controllers["ctl0"].clock.offset = timedelta(hours=hours)
        await asyncio.sleep(minutes * MINUTE)
        assert not deleted(sim)
        await sim.until(lambda: deleted(sim), 20 * MINUTE, "it is replaced")

    simulate(story, azure=FAST)


# The pods on the machine, and the hours since the signal until the deletion, at least and at most. Of each hour, the
# minutes until the first note, and those since the last one, are not counted by the next leader.
RELAYS = [("no pods", 0, 3.0, 3.5), ("pods that run on", 4, 4.5, 6.5)]


@pytest.mark.parametrize(("case", "gpus", "least", "most"), RELAYS, ids=[row[0] for row in RELAYS])
def test_a_row_of_hours_with_a_new_leader_each_hour(
    monkeypatch: pytest.MonkeyPatch, case: str, gpus: int, least: float, most: float
) -> None:
    """Each adds what it has observed: 3 h of the signal, and 2 h for the pods, which run on."""
    row = RepairPolicy(condition="KernelDeadlock", seconds=3 * HOUR, action="Replace", agreement="None",
                       group="Kernel", pods_seconds=2 * HOUR)  # fmt: skip
    policy = Policy(repair_policies=(row,))
    monkeypatch.setattr(gate_invariants, "POD_SECONDS", 2 * HOUR)  # as the row says

    async def story(sim: Sim) -> None:
        plugin(sim)
        await sim.start_controller("ctl0", policy=policy)
        await sim.apply(node_claim(NAME, size=EIGHT))
        await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "it is Ready")
        if gpus:
            train(sim, node_name(sim), gpus)
        began = sim.now
        sim.nodes.set_condition(node_name(sim), "KernelDeadlock", "True", "AUFSUmountHung", "task blocked")
        for incarnation in range(1, 9):
            for _ in range(58):
                await asyncio.sleep(MINUTE)
                if deleted(sim):
                    break
            if deleted(sim):
                break
            sim.crash(f"ctl{incarnation - 1}")
            await sim.start_controller(f"ctl{incarnation}", policy=policy)
        assert least <= (sim.now - began) / HOUR <= most, case

    simulate(story, azure=FAST)


def test_a_signal_that_ends_is_observed_anew() -> None:
    """It ends after two hours and is present again: what was observed before counts no longer."""
    row = RepairPolicy(condition="KernelDeadlock", seconds=3 * HOUR, action="Replace", agreement="None", group="Kernel")

    async def story(sim: Sim) -> None:
        await one(sim, policy=Policy(repair_policies=(row,)))
        node = node_name(sim)
        sim.nodes.set_condition(node, "KernelDeadlock", "True", "AUFSUmountHung", "task blocked")
        await asyncio.sleep(2 * HOUR)
        notes = sim.claim(NAME)["metadata"]["annotations"]
        assert '"seconds":6' in notes[labels.SIGNAL_OBSERVED]
        sim.nodes.set_condition(node, "KernelDeadlock", "False", "KernelHasNoDeadlock", "no deadlock")
        await asyncio.sleep(5 * MINUTE)
        assert labels.SIGNAL_OBSERVED not in sim.claim(NAME)["metadata"]["annotations"]

    simulate(story, azure=FAST)
