"""A request of NVSentinel for another machine, in the simulator and with a real API server.

Source: docs/references/kubernetes.md#nvsentinel.
"""

import asyncio
from pathlib import Path

import pytest

from provisioner.api.nvsentinel import NVSentinel
from tests import nvsentinel
from tests.world.claims import word
from tests.world.harness import Sim, simulated
from tests.world.transcript import FAST

from . import assets, charts
from .controlplane import ControlPlane
from .realworld import RealWorld
from .stories import WHOLE, Scene

ENABLED = {"nvsentinel": {"enabled": True}}
# Requests are looked at every ten seconds.
ANSWERED_SECONDS = 60.0


async def requests_are_answered(scene: Scene) -> None:
    """A RebootNode is refused; a TerminateNode is complete when all is gone, and keeps a successor of these names."""
    stage, store = scene.stage, scene.stage.store
    uid = await scene.up()
    node = scene.node()["metadata"]["name"]
    reboot, terminate = nvsentinel.request(node, kind="RebootNode"), nvsentinel.request(node)
    name = terminate["metadata"]["name"]
    store.create(nvsentinel.REBOOT_NODES, reboot)

    def answer(resource: str, kind: str) -> tuple[str, str]:
        return word(store.get(resource, name), kind)

    refused = ("False", "RebootNotSupported")
    await stage.until(
        lambda: answer(nvsentinel.REBOOT_NODES, "NodeReady") == refused, ANSWERED_SECONDS, "the restart is refused"
    )
    store.create(nvsentinel.TERMINATE_NODES, terminate)
    await scene.went(uid, WHOLE)
    scene.deleted_once()
    complete = ("True", "NodeClaimGone")
    await stage.until(
        lambda: answer(nvsentinel.TERMINATE_NODES, "NodeTerminated") == complete, ANSWERED_SECONDS, "it is complete"
    )
    successor = await scene.up()
    assert scene.node()["metadata"]["name"] == node
    await asyncio.sleep(scene.a_while_seconds)
    claim = stage.claim(scene.name)
    assert claim is not None
    assert claim["metadata"]["uid"] == successor
    assert "deletionTimestamp" not in claim["metadata"]


@simulated(azure=FAST)
async def test_in_the_simulator(sim: Sim) -> None:
    """The story passes on virtual time, with the invariants checked."""
    for crd in nvsentinel.crds():
        await sim.apply(crd)
    await sim.start_controller(nvsentinel=NVSentinel())
    await requests_are_answered(Scene(sim, "worn", a_while_seconds=600.0))


@pytest.mark.cluster
@pytest.mark.asyncio
async def test_on_the_real_server(tmp_path: Path) -> None:
    """With the rights that the chart grants for `nvsentinel.enabled`, no more are needed."""
    async with ControlPlane.start(assets.find(), tmp_path) as cp:
        await cp.install_crds()
        await cp.install_chart_rbac(values=ENABLED)
        for crd in nvsentinel.crds():
            await cp.demand("POST", charts.CRDS, crd)
        async with RealWorld.open(cp, tmp_path) as world:
            await world.start_controller(NVSENTINEL="{}")
            await requests_are_answered(Scene(world, "worn", a_while_seconds=25.0))
            await world.stop_controller()
