"""Faults of a DRA driver and of its DaemonSet: a machine is replaced for those that lie in the machine only."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.world.claims import message, ready
from tests.world.demand import pod
from tests.world.harness import Json, Sim, simulated
from tests.world.nodeclaim.common import NODES, SLICES, begun, dra_claim, dra_class, published, usable
from tests.world.transcript import MINUTE

from .common import deleted
from .plugins import DAEMON_SETS, daemon_set, install

DRIVER = "nvidia-dra-driver-gpu-kubelet-plugin"
EVERYWHERE = [{"operator": "Exists"}]


def driver(**spec: object) -> Json:
    """NVIDIA's DRA driver, as its chart has it."""
    image = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v25.12.0"
    containers = [{"name": "compute-domains", "image": image}, {"name": "gpus", "image": image}]
    volumes = [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/plugins"}}]
    return daemon_set(
        DRIVER, "dra", **{"containers": containers, "volumes": volumes, "tolerations": EVERYWHERE, **spec}
    )


def driver_pods(sim: Sim) -> list[Json]:
    return [one for one in sim.store.list("pods") if one["metadata"]["name"].startswith(DRIVER)]


def uninstalled(sim: Sim) -> None:
    sim.store.delete(DAEMON_SETS, DRIVER, "dra")


def kept_away(sim: Sim) -> None:
    sim.store.delete(DAEMON_SETS, DRIVER, "dra")
    sim.store.create(DAEMON_SETS, driver(nodeSelector={"no": "such-label"}), "dra")


def without_its_image(sim: Sim) -> None:
    """A new version of the DaemonSet, whose image does not exist."""
    waits = {"name": "gpus", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    status = {
        "phase": "Pending",
        "containerStatuses": [{**waits, "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    }
    for one in driver_pods(sim):
        sim.store.patch("pods", one["metadata"]["name"], {"status": status}, "dra", subresource="status")


def without_a_right(_: Sim) -> None:
    """Its pod runs, and the API server refuses its ResourceSlices."""


FAULTS: list[tuple[Callable[[Sim], None], str]] = [
    (uninstalled, "no DaemonSet of the cluster is the DRA driver gpu.nvidia.com"),
    (kept_away, f"DaemonSet dra/{DRIVER} requires label no=such-label"),
    (without_its_image, "is not running (ImagePullBackOff)"),
    (without_a_right, "runs, but it has published no complete pool of ResourceSlices"),
]


@pytest.mark.parametrize(("fault", "words"), FAULTS, ids=[row[0].__name__ for row in FAULTS])
@simulated(nodes=NODES)
async def test_a_fault_outside_the_machine_is_reported(sim: Sim, fault: Callable[[Sim], None], words: str) -> None:
    """A new machine would be the same: the NodeClaim states the cause, and its machine stays."""
    install(sim, driver())
    node = await usable(sim)
    fault(sim)
    sim.nodes.kill_plugin(node)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim, "one")
    assert words in message(sim, "one", "Initialized")


@simulated(nodes=NODES)
async def test_gpus_that_are_partitioned_are_no_loss(sim: Sim) -> None:
    """A user partitions one of the GPUs: the driver publishes seven slices of it in the place of the GPU."""
    await usable(sim)
    for one in sim.store.list(SLICES):
        slices = [{"name": f"gpu-0-mig-{n}", "attributes": {"type": {"string": "mig"}}} for n in range(7)]
        devices = [d for d in one["spec"]["devices"] if d["name"] != "gpu-0"]
        devices += slices if len(devices) < len(one["spec"]["devices"]) else []
        sim.store.patch(SLICES, one["metadata"]["name"], {"spec": {**one["spec"], "devices": devices}})
    await asyncio.sleep(180 * MINUTE)
    assert not deleted(sim, "one")
    assert "it has published 7 other devices, such as gpu-0-mig-0" in message(sim, "one", "Initialized")


@simulated(nodes=NODES)
async def test_another_driver_that_is_away(sim: Sim) -> None:
    """The claim names the driver of its network devices as well; all GPUs are there when that one goes."""
    await sim.start_controller()
    await sim.apply(dra_class())
    claim = dra_claim()
    claim["metadata"]["annotations"] = {"karpenter.sh/requested-dra-drivers": "dra.net"}
    await sim.apply(claim)
    await sim.until(lambda: published(sim) == 8, 900, "the GPUs are published")
    node = sim.nodes_of("one")[0]["metadata"]["name"]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.net", "nodeName": node, "pool": pool, "devices": [{"name": "eth1"}]}
    sim.store.create(SLICES, {"metadata": {"name": "network"}, "spec": spec})
    await ready(sim, "one")
    sim.store.delete(SLICES, "network")
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim, "one")
    assert '"dra.net" has published no complete pool' in message(sim, "one", "Initialized")


@pytest.mark.parametrize("installed", [True, False])
@simulated(nodes=NODES)
async def test_a_new_machine_with_seven_of_eight_gpus_is_replaced(sim: Sim, installed: bool) -> None:
    """As with a device plugin, after the limit of initialization: the complete pool of the driver has seven."""
    if installed:
        install(sim, driver())
    await begun(sim)
    await sim.until(lambda: sim.nodes_of("one"), 900, "its Node")
    machine = sim.nodes.machines[sim.nodes_of("one")[0]["metadata"]["name"]]
    machine.devices = replace(machine.devices, count=7)
    await asyncio.sleep(15 * MINUTE)
    assert not deleted(sim, "one")
    assert "has published 7 of 8 GPUs" in message(sim, "one", "Initialized")
    await asyncio.sleep(15 * MINUTE)
    assert deleted(sim, "one")


@simulated(nodes=NODES)
async def test_pods_run_on_while_all_gpus_are_tainted(sim: Sim) -> None:
    """One GPU does not answer, and the driver taints all: the Node is cordoned, and replaced once no pod has a GPU."""
    node = await usable(sim)
    claiming = pod("train", gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}])
    claiming["spec"]["nodeName"] = node
    sim.store.create("pods", claiming, "default")
    sim.nodes.set_unhealthy_gpus(node, 8)
    await asyncio.sleep(40 * MINUTE)
    assert not deleted(sim, "one")
    assert sim.store.get("nodes", node)["spec"]["unschedulable"]
    sim.store.delete("pods", "train", "default")
    await asyncio.sleep(10 * MINUTE)
    assert deleted(sim, "one")
