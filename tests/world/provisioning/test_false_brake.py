"""Machines that the purchase brake does not count against healthy pods, and pods that get another machine."""

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure.faults import ALWAYS, Fault, capacity
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.demand import (
    GPU,
    T4,
    claims_of,
    node_class,
    node_pool,
    pending,
    pod,
    pod_events,
    sizes,
    watches_pods,
    with_node_pool,
)
from tests.world.harness import Json, Sim, simulated

from .common import HOURS, claim, disk, disk_class, machines, misfits, on_each_node, phase, with_cpu, with_volume

pytestmark = pytest.mark.matrix(quick=0)

ONE_SIZE = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}]
FOUR_GPUS = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["Standard_NC64as_T4_v3"]}]
ZONES = {"key": labels.ZONE, "operator": "In", "values": ["westeurope-1", "westeurope-2"]}
AGENT = {"key": "network.example.com/not-ready", "effect": "NoExecute"}


def why(sim: Sim, *names: str) -> str:
    found = [f"{name} {phase(sim, name)}: {pod_events(sim, name)[-2:]}" for name in names]
    return "\n".join([*found, *map(str, misfits(sim))])


def both_run(sim: Sim) -> None:
    assert (phase(sim, "p1"), phase(sim, "p2")) == ("Running", "Running"), why(sim, "p1", "p2")


def untaint(sim: Sim, name: str) -> None:
    if (node := sim.store.get("nodes", name)) is not None:
        kept = [one for one in node["spec"].get("taints") or () if one["key"] != AGENT["key"]]
        sim.store.patch("nodes", name, {"spec": {"taints": kept}})


async def runs(sim: Sim, name: str, within: float = HOURS) -> None:
    await sim.until(lambda: phase(sim, name) == "Running", within, f"{name} runs")


def leaves(sim: Sim) -> bool:
    return any("deletionTimestamp" in one["metadata"] for one in claims_of(sim))


@simulated()
async def test_a_machine_that_nobody_needs_any_more(sim: Sim) -> None:
    """A job ends, the next one runs on its machine, and its own is removed empty: that counts for no later job."""
    await with_node_pool(sim, requirements=ONE_SIZE)
    await pending(sim, pod("job-0"))
    await runs(sim, "job-0")
    for number in (1, 3):
        await pending(sim, pod(f"job-{number}"))
        await sim.until(lambda: len(claims_of(sim)) == 2, 60.0, "its machine is bought")
        sim.store.delete("pods", f"job-{number - 1}", "default")
        await runs(sim, f"job-{number}", 60.0)
        await sim.until(lambda: leaves(sim), HOURS, "the unneeded machine is removed")
        await asyncio.sleep(10.0)
        await pending(sim, pod(f"job-{number + 1}"))
        await asyncio.sleep(60.0)
        assert not misfits(sim), why(sim, f"job-{number + 1}")
        sim.store.delete("pods", f"job-{number}", "default")
        await runs(sim, f"job-{number + 1}")
        await sim.until(lambda: len(claims_of(sim)) == 1, HOURS, "one machine is left")


@pytest.mark.matrix(quick=0)
@simulated()
async def test_hours_of_equal_jobs(sim: Sim) -> None:
    """90 jobs an hour, 90 to 270 s each, on faultless machines: none waits because of the machines of others."""
    await with_node_pool(sim, requirements=ONE_SIZE)
    loop, rng, began, number = asyncio.get_running_loop(), random.Random(3), sim.now, 0
    made: set[str] = set()
    braked: list[str] = []

    def end(name: str) -> None:
        if sim.store.get("pods", name, "default") is not None:
            sim.store.delete("pods", name, "default")

    def changed(_: str, resource: str, obj: Json, __: object) -> None:
        name = obj["metadata"]["name"]
        if resource == "events" and "machines for such pods did not take them" in obj.get("message", ""):
            braked.append(f"{sim.now:.0f}: {obj['message']}")
        if resource == "pods" and obj["spec"].get("nodeName") and name in made:
            made.discard(name)
            loop.call_later(rng.uniform(90.0, 270.0), end, name)

    sim.store.subscribe(changed)
    while sim.now - began < 2 * HOURS:
        made.add(f"job-{number}")
        await pending(sim, pod(f"job-{number}"))
        number += 1
        await asyncio.sleep(rng.expovariate(1 / 40.0))
    assert not braked
    assert not misfits(sim)


@simulated()
async def test_kube_scheduler_is_away_for_ten_minutes(sim: Sim) -> None:
    """As in an upgrade of the control plane: afterwards the pod, and a new one like it, get the only size."""
    await with_node_pool(sim, requirements=ONE_SIZE)
    await pending(sim, pod("p1"))
    await sim.until(lambda: sim.store.list("nodes", labels=f"{labels.NODEPOOL}=gpu"), HOURS, "its Node")
    sim.world.scheduler.stop()
    await asyncio.sleep(600.0)
    sim.world.scheduler.start()
    await asyncio.sleep(HOURS)
    await pending(sim, pod("p2"))
    await asyncio.sleep(HOURS)
    both_run(sim)


@simulated(nodes=NodeSettings(gpu_seconds=(300.0, 300.0)))
async def test_a_clock_is_set_while_a_machine_starts(sim: Sim) -> None:
    """An hour ahead: its Node counts as one that starts all the same, and no other machine is bought."""
    await with_node_pool(sim, requirements=ONE_SIZE)
    await pending(sim, pod("p1"))
    await sim.until(lambda: sim.store.list("nodes", labels=f"{labels.NODEPOOL}=gpu"), HOURS, "its Node")
    sim.controllers["ctl0"].clock.offset = timedelta(hours=1)
    await runs(sim, "p1")
    assert machines(sim) == 1
    assert not misfits(sim)


@simulated()
async def test_the_agent_of_one_node_is_slow(sim: Sim) -> None:
    """An agent removes its taint 90 s after one Node is initialized: other machines of the only size are bought."""
    mine: list[str] = []

    def taint(name: str) -> None:
        if not mine:
            mine.append(name)
            node = sim.store.get("nodes", name)
            assert node is not None
            sim.store.patch("nodes", name, {"spec": {"taints": [*(node["spec"].get("taints") or ()), AGENT]}})

    def initialized(name: str) -> None:
        if name in mine:
            asyncio.get_running_loop().call_later(90.0, untaint, sim, name)

    on_each_node(sim, taint, labels.NODEPOOL)
    on_each_node(sim, initialized, labels.INITIALIZED)
    await with_node_pool(sim, requirements=ONE_SIZE)
    await pending(sim, pod("p1"))
    await asyncio.sleep(HOURS)
    await pending(sim, pod("p2"))
    await asyncio.sleep(HOURS)
    both_run(sim)


def apart(name: str) -> Json:
    one = pod(name, gpus=0, nodeSelector={"team": "ml"})
    one["metadata"]["labels"] = {"app": "web"}
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    one["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return one


def with_port(name: str) -> Json:
    one = pod(name, gpus=0, nodeSelector={"team": "ml"})
    one["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    return one


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("make", [apart, with_port])
@pytest.mark.parametrize("one_size", [True, False])
def test_replicas_that_do_not_share_a_machine(make: Any, one_size: bool) -> None:
    """A Deployment is rolled out, then scaled by one while AKS takes 12 minutes: the machine in use does not count."""

    @simulated()
    async def story(sim: Sim) -> None:
        await with_node_pool(sim, requirements=ONE_SIZE if one_size else [])
        await pending(sim, make("r1"))
        await sim.until(lambda: phase(sim, "r1") == "Running", HOURS, "the first replica runs")
        sim.store.delete("pods", "r1", "default")
        await pending(sim, make("r1b"))
        await sim.until(lambda: phase(sim, "r1b") == "Running", HOURS, "its successor runs there")
        await asyncio.sleep(400.0)
        sim.cloud.faults.append(Fault(verb="PUT", times=ALWAYS, operation_seconds=720.0))
        for name in ("p1", "p2"):
            await pending(sim, make(name))
            await asyncio.sleep(HOURS)
        both_run(sim)
        assert sizes(sim) == [T4] * 3, why(sim, "p1", "p2")
        assert not misfits(sim), why(sim, "p1", "p2")

    story()


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("one_size", [False, True])
def test_new_pods_take_the_machines_first(one_size: bool) -> None:
    """Twice a new pod comes in the second in which a machine is Ready and runs there: no machine was in vain."""

    @simulated()
    async def story(sim: Sim) -> None:
        done: set[str] = set()

        def changed(_: str, resource: str, obj: Json, __: object) -> None:
            name = obj["metadata"]["name"]
            if resource != "nodes" or labels.NODEPOOL not in obj["metadata"]["labels"] or name in done or len(done) > 1:
                return
            if int((obj["status"].get("allocatable") or {}).get(GPU, 0)):
                done.add(name)
                body = pod(f"p{len(done)}", priority=1000)
                asyncio.get_running_loop().call_soon(sim.store.create, "pods", body, "default")

        sim.store.subscribe(changed)
        await with_node_pool(sim, requirements=ONE_SIZE if one_size else [])
        await pending(sim, pod("first"))
        await asyncio.sleep(2 * HOURS)
        both_run(sim)
        assert phase(sim, "first") == "Running", why(sim, "first")

    story()


@simulated()
async def test_two_pods_of_a_new_disk(sim: Sim) -> None:
    """One of two machines comes in another zone than the disk, for want of capacity: a third one is bought."""
    disk_class(sim, "zonal", volumeBindingMode="WaitForFirstConsumer")
    claim(sim, "data", storageClassName="zonal")
    zone: list[str] = []
    scheduler: Any = sim.world.scheduler
    place = scheduler._place

    def placed(body: Any, infos: Any, devices: Any) -> Any:
        of_disk = [one for one in infos if one.labels.get(labels.ZONE) in zone]
        return place(body, of_disk if zone and body["spec"].get("volumes") else infos, devices)

    def changed(_: str, resource: str, obj: Json, __: object) -> None:
        name = obj["spec"].get("nodeName") if resource == "pods" and obj["spec"].get("volumes") else None
        if name and not zone:
            zone.append((sim.store.get("nodes", name) or {})["metadata"]["labels"][labels.ZONE])
            asyncio.get_running_loop().call_soon(bind)

    def bind() -> None:
        disk(sim, "v", zone[0])
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}}
        sim.store.patch("persistentvolumeclaims", "data", done, "default")

    scheduler._place = placed
    sim.store.subscribe(changed)
    await with_node_pool(sim, requirements=[*ONE_SIZE, ZONES])
    await pending(sim, with_volume("p1", "data"))
    await sim.until(lambda: claims_of(sim), 60.0, "the first NodeClaim")
    sim.cloud.faults.append(capacity(size=T4, times=1))
    await pending(sim, with_volume("p2", "data"))
    await asyncio.sleep(2 * HOURS)
    both_run(sim)


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("cause", ["3 of 4 GPUs", "no device plugin", "startup taint"])
@pytest.mark.parametrize("one_size", [False, True])
def test_one_machine_that_is_never_initialized(cause: str, one_size: bool) -> None:
    """One machine comes up with a dead GPU, without its driver, or without its agent: the pod gets another one."""

    @simulated()
    async def story(sim: Sim) -> None:
        bad: list[str] = []

        def act(name: str) -> None:
            first, bad[:] = not bad, bad or [name]
            if first and cause == "3 of 4 GPUs":
                sim.nodes.set_gpus(name, 4, unhealthy=1)
            elif first and cause == "no device plugin":
                sim.nodes.kill_plugin(name)
            elif not first and cause == "startup taint":
                asyncio.get_running_loop().call_later(20.0, untaint, sim, name)

        on_each_node(sim, act, labels.NODEPOOL)
        pool = node_pool(requirements=FOUR_GPUS if one_size else [])
        if cause == "startup taint":
            pool["spec"]["template"]["spec"]["startupTaints"] = [AGENT]
        await sim.apply(node_class())
        await sim.apply(pool)
        await sim.start_controller()
        await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
        await pending(sim, pod("p1", gpus=4))
        await asyncio.sleep(2 * HOURS)
        assert phase(sim, "p1") == "Running", why(sim, "p1")

    story()


@simulated()
async def test_no_machine_is_ever_initialized(sim: Sim) -> None:
    """A driver that is broken everywhere costs two machines."""
    on_each_node(sim, sim.nodes.kill_plugin, labels.NODEPOOL)
    await with_node_pool(sim, requirements=ONE_SIZE)
    await pending(sim, pod("p1"))
    await asyncio.sleep(3 * HOURS)
    assert machines(sim) == 2, why(sim, "p1")
    assert any("2 machines that were bought for it did not take it" in text for _, text in pod_events(sim, "p1"))


@simulated()
async def test_machines_of_other_pods_are_being_removed(sim: Sim) -> None:
    """Pods end before their machines are Ready, which are removed empty: a pod that comes then gets one of its own."""
    await with_node_pool(sim, requirements=ONE_SIZE, disruption={"consolidateAfter": "0s"})
    for name in ("p1", "p2"):
        await pending(sim, pod(name))
    await sim.until(lambda: len(claims_of(sim)) == 2, 60.0, "their machines are bought")
    for name in ("p1", "p2"):
        sim.store.delete("pods", name, "default")

    def removed() -> bool:
        taints = [node["spec"].get("taints") or () for node in sim.store.list("nodes", labels=labels.NODEPOOL)]
        return all("deletionTimestamp" in one["metadata"] for one in claims_of(sim)) and all(
            any(taint["key"] == labels.DISRUPTED_TAINT for taint in found) for found in taints
        )

    await sim.until(removed, HOURS, "both are removed, and take no pods")
    await sim.apply(pod("p3"))
    await asyncio.sleep(10.0)
    assert claims_of(sim), "they are still there"
    await runs(sim, "p3")
    # What was bought in vain for the namespace may be recorded; none of it is about pods of this shape.
    assert not any(one.get("shape") for one in misfits(sim)), why(sim, "p3")


@simulated(
    nodes=NodeSettings(allocatable_shares={T4: {"cpu": 0.97}}), azure=AzureSettings(create_seconds=(120.0, 120.0))
)
async def test_a_machine_is_deleted_before_it_has_a_node(sim: Sim) -> None:
    """The Node shows later that its size is too small, as the next one does: the third machine is of another size."""
    await with_node_pool(sim, requirements=[{**ONE_SIZE[0], "values": [T4, "Standard_NC8as_T4_v3"]}])
    await pending(sim, with_cpu("p1", "3800m"))
    await asyncio.sleep(60.0)
    await sim.delete_claim(claims_of(sim)[0]["metadata"]["name"])
    await runs(sim, "p1")
    assert machines(sim) == 3, why(sim, "p1")
