"""Faults of a device plugin that another machine would have as well: they are reported, and the machine is kept.

A plugin that stops leaves the containers that use its GPUs alone.
"""

import asyncio

import pytest

from tests.world.garbagecollection.common import one
from tests.world.harness import Json, Sim, simulated
from tests.world.health.plugins import fail_plugin, plugin_pod
from tests.world.nodeclaim.common import label
from tests.world.transcript import FAST, MINUTE, claim_condition, events, node_name, refuse

from .common import deleted, plugin

pytestmark = pytest.mark.matrix(quick=0)


def waits_for_the_driver(sim: Sim) -> None:
    """The plugin's pod waits in an init container, as that of the GPU Operator does while it installs a driver."""
    found = plugin_pod(sim)
    assert found is not None
    blank = {"ready": False, "restartCount": 0, "image": "", "imageID": ""}
    init = {**blank, "name": "toolkit-validation", "state": {"running": {"startedAt": "2026-03-01T13:30:00Z"}}}
    waits = {**blank, "name": "ctr", "state": {"waiting": {"reason": "PodInitializing"}}}
    status: Json = {"phase": "Pending", "initContainerStatuses": [init], "containerStatuses": [waits]}
    meta = found["metadata"]
    sim.store.patch("pods", meta["name"], {"status": status}, meta["namespace"], subresource="status")


FAULTS = ["CreateContainerConfigError", "ContainerCreating", "CrashLoopBackOff", "the driver", "uninstalled", "MIG"]


@pytest.mark.parametrize("fault", FAULTS)
@simulated(azure=FAST)
async def test_a_fault_that_another_machine_would_have(sim: Sim, fault: str) -> None:
    """Its configuration, its image, its driver, a label of a user, or the DaemonSet itself: no machine is replaced."""
    plugin(sim)
    await one(sim)
    node = node_name(sim)
    await asyncio.sleep(90 * MINUTE)
    match fault:
        case "the driver":
            waits_for_the_driver(sim)
        case "uninstalled":
            sim.store.delete("daemonsets.apps", "nvidia-device-plugin-daemonset", "kube-system")
        case "MIG":
            await label(sim, node, nvidia_com__mig_config="all-9g.999gb", nvidia_com__mig_config_state="failed")
        case _:
            fail_plugin(sim, fault, 9 if fault == "CrashLoopBackOff" else 0)
    sim.nodes.kill_plugin(node)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim), [event["message"] for event in events(sim, "NodeRepair")]
    assert claim_condition(sim, "Initialized")[:2] == ("False", "GPUUnavailable")


@pytest.mark.parametrize("status", [403, 500])
@simulated(azure=FAST)
async def test_daemon_sets_that_cannot_be_read(sim: Sim, status: int) -> None:
    """Without the right, or while the LIST fails, the cause of missing GPUs is not known: the machine is kept."""
    plugin(sim)
    refuse(sim, lambda call: call.target.kind == "daemonsets" and call.who.startswith("ctl"), status, "Refused")
    await one(sim)
    await asyncio.sleep(90 * MINUTE)
    sim.nodes.kill_plugin(node_name(sim))
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim), [event["message"] for event in events(sim, "NodeRepair")]
