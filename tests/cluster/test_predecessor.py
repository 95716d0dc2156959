"""Migration from Azure/gpu-provisioner on a real API server: its claims, one of them older than the required node
class.

The objects are as Azure/gpu-provisioner leaves them (`tests.world.predecessor`): the old claim was stored under a CRD
without these rules, and our CRD was installed afterwards. The controller is a real process with our chart's service
account.
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.world import predecessor as old
from tests.world.claims import ready

from . import assets
from .bystanders import MERGE
from .controlplane import CONTROLLERS, ControlPlane
from .realstore import path_of
from .realworld import CLAIMS, RealWorld

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CLAIMS}"
NEW, OLD = "claimnew", "claimold"
LONG = 900.0
WHOLE = ["pool", "node", "claim"]
CRD_SECONDS = 300.0


async def takes(cp: ControlPlane, status: int) -> None:
    """Wait until a claim without a class gets this response: a changed CRD takes effect with a delay."""
    async with asyncio.timeout(CRD_SECONDS):
        while True:
            trial = old.wanted("trial", nodeClassRef=old.NO_CLASS)
            got, _ = await cp.request("POST", f"{path_of(CLAIMS)}?dryRun=All", trial)
            if got == status:
                return
            await asyncio.sleep(0.5)


async def machine(world: RealWorld, claim: Json) -> None:
    """Create the pool and the registered Node of Azure/gpu-provisioner for this claim, and its status."""
    old.pool(world, claim)
    old.launched(world, claim, node=await old.register(world, claim))


def gone(world: RealWorld, name: str) -> bool:
    """Whether all three are deleted; watches report it with a delay."""
    return world.claim(name) is None and len(world.audit_log.deletions_of(name)) == len(WHOLE)


async def test_claims_of_azure_gpu_provisioner_are_adopted_and_can_be_deleted(tmp_path: Path) -> None:
    """Both claims keep their machines without a PUT, and are removed in order; the old one accepts a status."""
    async with ControlPlane.start(assets.find(), tmp_path, controller_manager=CONTROLLERS) as cp:
        await cp.install_crds()
        await cp.install_chart_rbac()
        shipped = await cp.demand("GET", CRD_PATH)
        await cp.demand("PATCH", CRD_PATH, old.lax(shipped), MERGE)
        await takes(cp, 201)
        ancient = await cp.demand("POST", path_of(CLAIMS), old.wanted(OLD, nodeClassRef=old.NO_CLASS))
        await cp.demand("PATCH", CRD_PATH, {"spec": {"versions": shipped["spec"]["versions"]}}, MERGE)
        await takes(cp, 422)
        async with RealWorld.open(cp, tmp_path) as world:
            await machine(world, ancient)
            await machine(world, await world.apply(old.wanted(NEW)))
            await world.start_controller()
            await world.until(lambda: world.claim(NEW)["status"].get("imageID"), LONG, "the controller has come by")
            for name in (NEW, OLD):
                await ready(world, name)
                await world.delete_claim(name)
            for name in (NEW, OLD):
                await world.until(partial(gone, world, name), LONG, f"{name} is gone")
                assert world.audit_log.deletions_of(name) == WHOLE, world.describe()
                calls = [(call.method, call.status) for call in world.cloud.requests if call.pool == name]
                assert "PUT" not in [verb for verb, _ in calls]
                assert calls.count(("DELETE", 202)) == 1
            await world.settled()
            await world.stop_controller()
