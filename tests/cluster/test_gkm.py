"""The acceptance of kernel caches (S3), in the simulator and with a real API server and kube-scheduler."""

from pathlib import Path

import pytest

from tests import gkm
from tests.world.demand import TOLERATION
from tests.world.harness import Sim, simulate
from tests.world.transcript import FAST

from . import assets, charts
from .controlplane import CONTROLLERS, ControlPlane
from .gkm_story import s3_acceptance
from .realworld import RealWorld
from .scheduler import kube_scheduler
from .stories import Scene

LOOPS = (*CONTROLLERS, "node-lifecycle-controller")
CLEANUP = {"gkm": {"cleanup": True}}


def test_S3_acceptance_in_the_simulator() -> None:  # noqa: N802
    """The story passes on virtual time, with the invariants checked."""

    async def story(sim: Sim) -> None:
        for crd in gkm.crds():
            await sim.apply(crd)
        await sim.start_controller(gkm_cleanup=True)
        await s3_acceptance(Scene(sim, "gkm", a_while_seconds=600.0))

    simulate(story, azure=FAST)


@pytest.mark.cluster
@pytest.mark.asyncio
async def test_S3_acceptance_on_the_real_server(tmp_path: Path) -> None:  # noqa: N802
    """With the rights that the chart grants for `gkm.cleanup`, no more are needed."""
    async with ControlPlane.start(assets.find(), tmp_path, controller_manager=LOOPS, audit=True) as cp:
        await cp.install_crds()
        await cp.install_chart_rbac(values=CLEANUP)
        for crd in gkm.crds():
            await cp.demand("POST", charts.CRDS, crd)
        async with kube_scheduler(cp), RealWorld.open(cp, tmp_path) as world:
            await world.start_controller(GKM_CLEANUP="true")

            async def doctor() -> str:
                pod = gkm.job_pod("extract-1", "default", world.nodes_of("gkm")[0]["metadata"]["name"], TOLERATION)
                job = {"metadata": {"name": "extract-1"}, "spec": {"template": {"spec": pod["spec"]}}}
                await cp.demand("POST", "/apis/batch/v1/namespaces/default/jobs", job)
                status = {"status": {"active": 1, "ready": 0, "startTime": "2026-03-01T12:00:00Z"}}
                path = "/apis/batch/v1/namespaces/default/jobs/extract-1/status"
                await cp.demand("PATCH", path, status, content_type="application/merge-patch+json")
                return (await world.command("doctor", "gkm")).out

            await s3_acceptance(Scene(world, "gkm", a_while_seconds=5.0), doctor)
