"""The devices of a machine: the device manager's state machine, and what of it is on the Node and when."""

import asyncio

import pytest

from provisioner.simulator.nodes.device_plugin import Devices
from provisioner.simulator.nodes.machine import NodeSettings
from tests.stories import run_by

from .stage import GPU, SIZE, Sim, pod, run_scenario

EIGHT = "Standard_ND96isr_H100_v5"
NEW = Devices(resource=GPU, count=8)
SERVING = NEW.served()

# Each row: the events of a machine, (capacity, allocatable) afterwards, and whether the device manager knows it.
TABLE: dict[str, tuple[Devices, tuple[int, int] | None, bool]] = {
    "the plugin never registered": (NEW, None, False),
    "and the kubelet restarted": (NEW.restarted(), None, False),
    "the plugin registered": (SERVING, (8, 8), True),
    "it stopped": (SERVING.stopped(), (8, 0), True),
    "and came back": (SERVING.stopped().served(), (8, 8), True),
    "it stopped for five minutes": (SERVING.stopped().expired(), (0, 0), False),
    "and came back then": (SERVING.stopped().expired().served(), (8, 8), True),
    "the grace period of a plugin that came back": (SERVING.stopped().served().expired(), (8, 8), True),
    "the kubelet restarted": (SERVING.restarted(), (0, 0), True),
    "and the plugin registered again": (SERVING.restarted().served(), (8, 8), True),
    "the kubelet restarted without the plugin": (SERVING.stopped().restarted(), (0, 0), True),
    "and the plugin was away for five minutes": (SERVING.stopped().restarted().expired(), (0, 0), False),
    "the kubelet restarted after that": (SERVING.stopped().expired().restarted(), (0, 0), False),
    "a device is unhealthy": (SERVING.failed(1), (8, 7), True),
    "and later another one": (SERVING.failed(1).failed(2), (8, 6), True),
    "an unhealthy device stays so": (SERVING.failed(2).failed(0), (8, 6), True),
    "all devices are unhealthy": (SERVING.failed(8), (8, 0), True),
    "until the plugin starts again": (SERVING.failed(2).stopped().served(), (8, 8), True),
    "or the kubelet restarts": (SERVING.failed(2).restarted().served(), (8, 8), True),
    "a new machine has the Node of an old one": (NEW.inherited(), (0, 0), False),
    "a machine without whole GPUs": (Devices(resource="", count=0).served(), None, False),
}


@pytest.mark.parametrize("row", TABLE)
def test_capacity_and_allocatable(row: str) -> None:
    """The device manager's table."""
    devices, report, registered = TABLE[row]
    assert (devices.report, devices.registered) == (report, registered)


@pytest.mark.parametrize("control", ["stop_plugin", "kill_plugin"])
@run_by(run_scenario)
async def test_a_stopped_plugin_is_removed_after_five_minutes(sim: Sim, control: str) -> None:
    """8/8, then 8/0 for five minutes, then 0/0, each with the next update of the Node's status; then 8/8 again."""
    sim.cloud.seed_pool("gpu1", vmSize=EIGHT)
    await asyncio.sleep(120)
    assert sim.gpus() == ("8", "8")
    getattr(sim.nodes, control)(sim.name)
    assert sim.gpus() == ("8", "8")
    await asyncio.sleep(10.1)
    assert sim.gpus() == ("8", "0")
    await asyncio.sleep(200)
    sim.nodes.start_plugin(sim.name)
    await asyncio.sleep(10.1)
    assert sim.gpus() == ("8", "8")
    getattr(sim.nodes, control)(sim.name)
    await asyncio.sleep(299)
    assert sim.gpus() == ("8", "0")
    await asyncio.sleep(11.1)
    assert sim.gpus() == ("0", "0")
    sim.nodes.start_plugin(sim.name)
    await asyncio.sleep(10.1)
    assert sim.gpus() == ("8", "8")


@run_by(run_scenario)
async def test_short_states_are_not_on_the_node(sim: Sim) -> None:
    """A plugin that restarts between two updates of the Node's status changes nothing; a condition updates it at
    once.
    """
    sim.cloud.seed_pool("gpu1", vmSize=EIGHT)
    await asyncio.sleep(120)
    seen: list[tuple[str | None, str | None]] = []
    sim.store.subscribe(lambda *_: seen.append(sim.gpus()))
    sim.nodes.stop_plugin(sim.name)
    sim.nodes.start_plugin(sim.name)
    await asyncio.sleep(30)
    assert set(seen) <= {("8", "8")}
    sim.nodes.stop_plugin(sim.name)
    sim.nodes.set_ready(sim.name, False)
    assert sim.gpus() == ("8", "0")


@run_by(run_scenario)
async def test_an_unhealthy_device_stays_so_until_the_plugin_starts_again(sim: Sim) -> None:
    """8/7 for as long as the plugin runs."""
    sim.cloud.seed_pool("gpu1", vmSize=EIGHT)
    await asyncio.sleep(120)
    sim.nodes.set_unhealthy_gpus(sim.name, 1)
    await asyncio.sleep(10.1)
    assert sim.gpus() == ("8", "7")
    sim.nodes.set_unhealthy_gpus(sim.name, 0)
    await asyncio.sleep(3600)
    assert sim.gpus() == ("8", "7")
    sim.nodes.stop_plugin(sim.name)
    sim.nodes.start_plugin(sim.name)
    await asyncio.sleep(10.1)
    assert sim.gpus() == ("8", "8")


@pytest.mark.parametrize("first", [0.05, 0.15])
def test_a_restarted_kubelet_waits_for_a_running_plugin(first: float) -> None:
    """Until the kubelet's first status the API has 8/8. Posted before the plugin has registered, that status has 0/0,
    and the next one 8/8; posted afterwards it has 8/8.
    """

    async def scenario(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=EIGHT)
        await asyncio.sleep(120)
        sim.nodes.restart_kubelet(sim.name)
        await asyncio.sleep(4.9)
        assert sim.gpus() == ("8", "8")
        await asyncio.sleep(1)
        shown = ("0", "0") if first < 0.1 else ("8", "8")
        assert (sim.gpus(), sim.ready()) == (shown, "True")
        await asyncio.sleep(9)
        assert sim.gpus() == shown
        await asyncio.sleep(1)
        assert sim.gpus() == ("8", "8")

    run_scenario(scenario, NodeSettings(status_seconds=(5, 5), first_status_seconds=(first, first)))


@pytest.mark.parametrize("reboots", [False, True])
@run_by(run_scenario)
async def test_only_a_reboot_starts_a_stopped_plugin_and_nothing_a_dead_one(sim: Sim, reboots: bool) -> None:
    """A restarted kubelet without its plugin shows 0/0; a machine that has rebooted starts a plugin that can start."""
    for name in ("gpu1", "gpu2"):
        sim.cloud.seed_pool(name, vmSize=EIGHT)
    await asyncio.sleep(120)
    dead = sim.name.replace("gpu1", "gpu2")
    sim.nodes.stop_plugin(sim.name)
    sim.nodes.kill_plugin(dead)
    for name in (sim.name, dead):
        (sim.nodes.reboot if reboots else sim.nodes.restart_kubelet)(name)
    await asyncio.sleep(600)
    assert sim.gpus() == (("8", "8") if reboots else ("0", "0"))
    assert sim.gpus(dead) == ("0", "0")
    sim.nodes.start_plugin(dead)
    await asyncio.sleep(10.1)
    assert sim.gpus(dead) == ("8", "8")


def test_a_reboot_changes_the_boot_id_and_removes_the_gpus_for_a_while() -> None:
    """The Node is Unknown after 40 s, returns with another bootID and 0 GPUs, and then has all GPUs again."""

    async def scenario(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE)
        await asyncio.sleep(120)
        before = sim.node["status"]["nodeInfo"]["bootID"]
        sim.nodes.reboot(sim.name)
        await asyncio.sleep(41)
        assert (sim.ready(), sim.gpus()) == ("Unknown", ("1", "1"))
        await asyncio.sleep(50)
        assert sim.node["status"]["nodeInfo"]["bootID"] != before
        assert sim.gpus() == ("0", "0")
        await asyncio.sleep(100)
        assert (sim.ready(), sim.gpus()) == ("True", ("1", "1"))
        assert sim.keys() == set()

    run_scenario(scenario, NodeSettings(reboot_seconds=(90, 90)))


def test_a_reboot_stops_the_plugin_that_was_about_to_serve() -> None:
    """Registrations from before the reboot never appear on the Node."""

    async def scenario(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE)
        await asyncio.sleep(15)
        assert sim.ready() == "True"
        sim.nodes.reboot(sim.name)
        await asyncio.sleep(80)
        assert sim.gpus() == (None, None)
        await asyncio.sleep(200)
        assert sim.gpus() == ("1", "1")

    run_scenario(scenario, NodeSettings(ready_seconds=(10, 10), gpu_seconds=(60, 60), reboot_seconds=(90, 90)))


@run_by(run_scenario)
async def test_a_pod_that_is_bound_while_nothing_is_allocatable_fails(sim: Sim) -> None:
    """The scheduler saw 8 GPUs that the kubelet no longer has: the pod is Failed, for good; others run."""
    sim.cloud.seed_pool("gpu1", vmSize=EIGHT)
    await asyncio.sleep(120)
    sim.store.create("pods", pod("before", sim.name, gpus=8))
    await asyncio.sleep(5)
    sim.nodes.stop_plugin(sim.name)
    sim.store.create("pods", pod("after", sim.name, gpus=1))
    sim.store.create("pods", pod("plain", sim.name))
    await asyncio.sleep(60)
    sim.nodes.start_plugin(sim.name)
    await asyncio.sleep(600)
    statuses = {found["metadata"]["name"]: found["status"] for found in sim.store.list("pods")}
    assert {name: status["phase"] for name, status in statuses.items()} == {
        "before": "Running",
        "after": "Failed",
        "plain": "Running",
    }
    assert statuses["after"]["reason"] == "UnexpectedAdmissionError"
    assert statuses["after"]["message"] == (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
        " nvidia.com/gpu, which is unexpected"
    )


@run_by(run_scenario)
async def test_a_reboot_fails_the_pods_that_had_devices(sim: Sim) -> None:
    """The kubelet admits its pods again before the plugin is back."""
    sim.cloud.seed_pool("gpu1", vmSize=EIGHT)
    await asyncio.sleep(120)
    sim.store.create("pods", pod("gpu", sim.name, gpus=1))
    sim.store.create("pods", pod("plain", sim.name))
    await asyncio.sleep(5)
    sim.nodes.restart_kubelet(sim.name)
    await asyncio.sleep(60)
    assert {found["status"]["phase"] for found in sim.store.list("pods")} == {"Running"}
    sim.nodes.reboot(sim.name)
    await asyncio.sleep(300)
    phases = {found["metadata"]["name"]: found["status"]["phase"] for found in sim.store.list("pods")}
    assert phases == {"gpu": "Failed", "plain": "Running"}
