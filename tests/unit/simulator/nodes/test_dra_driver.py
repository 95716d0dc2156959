"""What a DRA driver publishes about GPUs that fail, by `NodeSettings.device_health`."""

import asyncio
from typing import Literal

import pytest

from provisioner.simulator.nodes.machine import NodeSettings

from .stage import Sim, run_scenario

EIGHT = "Standard_ND96isr_H100_v5"
Health = Literal["off", "xid", "lost"]
XID, GONE = "gpu.nvidia.com/xid", "gpu.nvidia.com/gpu-lost"


def published(sim: Sim) -> list[list[str]]:
    """The keys of the taints of each device."""
    slices = sim.store.list("resourceslices.resource.k8s.io")
    return [[taint["key"] for taint in one.get("taints", ())] for found in slices for one in found["spec"]["devices"]]


@pytest.mark.parametrize(
    ("health", "unhealthy", "lost"),
    [
        ("off", [[]] * 8, [[]] * 7),
        ("xid", [[XID], *[[]] * 7], [[]] * 7),
        ("lost", [[XID], *[[]] * 7], [[XID, GONE], *[[GONE]] * 7]),
    ],
)
def test_gpus_that_fail(health: Health, unhealthy: list[list[str]], lost: list[list[str]]) -> None:
    """Only a driver that has started again lacks the lost GPU; after a reboot all are there."""

    async def scenario(sim: Sim) -> None:
        sim.create(vmSize=EIGHT)
        await asyncio.sleep(600.0)
        assert published(sim) == [[]] * 8
        sim.nodes.set_unhealthy_gpus(sim.name, 1)
        await asyncio.sleep(10.0)
        assert published(sim) == unhealthy
        sim.nodes.lose_gpus(sim.name, 1)
        await asyncio.sleep(10.0)
        assert published(sim) == lost
        sim.nodes.start_plugin(sim.name)
        await asyncio.sleep(10.0)
        assert published(sim) == [[]] * 7
        sim.nodes.reboot(sim.name)
        await asyncio.sleep(600.0)
        assert published(sim) == [[]] * 8

    run_scenario(scenario, NodeSettings(dra_labels={}, device_health=health))


def test_a_machine_without_any_of_its_gpus() -> None:
    """The driver, which runs, publishes a pool without devices; the Node has no resource of a device plugin."""

    async def scenario(sim: Sim) -> None:
        sim.create(vmSize="Standard_NC4as_T4_v3")
        await asyncio.sleep(600.0)
        assert published(sim) == [[]]
        sim.nodes.lose_gpus(sim.name, 1)
        await asyncio.sleep(60.0)
        (found,) = sim.store.list("resourceslices.resource.k8s.io")
        assert (found["spec"]["devices"], found["spec"]["pool"]["resourceSliceCount"]) == ([], 1)
        assert sim.gpus() == (None, None)

    run_scenario(scenario, NodeSettings(dra_labels={}))
