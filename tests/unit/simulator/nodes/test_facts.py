"""How machines differ from what AKS documents, and what comes late, on virtual time."""

import asyncio

import pytest

from provisioner.simulator.nodes import resources
from provisioner.simulator.nodes.machine import NodeSettings
from tests.stories import run_by

from .stage import SIZE, Sim, run_scenario, until

AGENT = "agent.example.com/not-ready"


@pytest.mark.parametrize(
    ("size", "max_pods", "disk_gib", "expected"),
    [
        pytest.param("Standard_NC4as_T4_v3", 30, 128, (3860, 28_736_340 - 750 * 1024, 129_886_128), id="observed"),
        pytest.param("Standard_NC24ads_A100_v4", 110, 128, (23_660, None, 129_886_128), id="between-two-rows"),
        pytest.param("Standard_ND96isr_H100_v5", 250, 1024, (94_940, None, None), id="beyond-the-last-row"),
        pytest.param("Standard_D2s_v5", 250, 256, (1900, None, 259_966_896), id="a-quarter-of-the-memory-at-most"),
    ],
)
def test_what_a_machine_offers(
    size: str, max_pods: int, disk_gib: int, expected: tuple[int, int | None, int | None]
) -> None:
    """CPU in thousandths, memory and the capacity of the disk in KiB."""
    found = resources.of(size, max_pods, disk_gib)
    milli, memory, disk = expected
    assert found.free_cpu_milli == milli
    assert memory is None or found.free_memory_kib == memory
    assert disk is None or found.disk_kib == disk
    assert found.memory_kib * 0.7 < found.free_memory_kib < found.memory_kib
    assert found.free_disk_bytes < found.disk_kib * 1024


@run_by(
    run_scenario,
    settings=NodeSettings(
        allocatable_shares={SIZE: {"cpu": 0.5}, "": {"cpu": 0.25}},
        aks_labels={"example.com/rack": "r1"},
        agent_taints=(f"{AGENT}=true:NoExecute",),
        agent_seconds=(100.0, 100.0),
    ),
)
async def test_a_node_may_differ_from_what_is_documented(sim: Sim) -> None:
    """Shares of one size or of all others, labels of AKS, and taints of agents until these have started."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    sim.cloud.seed_pool("cpu1", vmSize="Standard_D4s_v5")
    await asyncio.sleep(60)
    assert sim.node["status"]["allocatable"]["cpu"] == "11830m"
    (other,) = sim.store.list("nodes", labels="agentpool=cpu1")
    assert other["status"]["allocatable"]["cpu"] == "965m"
    assert sim.node["metadata"]["labels"]["example.com/rack"] == "r1"
    sim.nodes.restart_kubelet(sim.name)
    assert sim.keys() == {AGENT}
    await asyncio.sleep(45)
    assert sim.keys() == set()


@run_by(run_scenario)
async def test_a_kubelet_may_register_late(sim: Sim) -> None:
    """A machine that never registered does when it may."""
    sim.nodes.never_register("gpu1")
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(3600)
    assert sim.store.list("nodes") == []
    sim.nodes.register("gpu1")
    await asyncio.sleep(120)
    assert sim.gpus() == ("1", "1")


@run_by(run_scenario)
async def test_a_kubelet_that_restarts_before_its_node_is_ready_makes_it_ready(sim: Sim) -> None:
    """The cloud node manager's part does not wait for the kubelet."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await until(lambda: sim.store.get("nodes", sim.name) is not None)
    sim.nodes.restart_kubelet(sim.name)
    await asyncio.sleep(10)
    assert sim.node["spec"]["providerID"]
    await asyncio.sleep(120)
    assert (sim.ready(), sim.gpus()) == ("True", ("1", "1"))


@run_by(run_scenario)
async def test_lost_gpus_return_with_a_reboot(sim: Sim) -> None:
    """The plugin, which starts again, does not find them; what it does while the machine is away has no effect."""
    sim.cloud.seed_pool("gpu1", vmSize="Standard_ND96isr_H100_v5")
    await asyncio.sleep(120)
    sim.nodes.lose_gpus(sim.name, 3)
    await asyncio.sleep(20)
    assert sim.gpus() == ("5", "5")
    sim.nodes.restart_kubelet(sim.name)
    await asyncio.sleep(30)
    assert sim.gpus() == ("5", "5")
    sim.nodes.reboot(sim.name)
    sim.nodes.start_plugin(sim.name)
    await asyncio.sleep(600)
    assert sim.gpus() == ("8", "8")


@run_by(run_scenario)
async def test_a_machine_too_many_is_removed(sim: Sim) -> None:
    """The count of the pool stays."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    sim.cloud.add_machine("gpu1")
    await asyncio.sleep(60)
    assert len(sim.store.list("nodes")) == 2
    sim.cloud.remove_machine("gpu1", 1)
    await asyncio.sleep(120)
    assert [node["metadata"]["name"] for node in sim.store.list("nodes")] == [sim.name]
    assert sim.cloud.pools["gpu1"].count == 1
