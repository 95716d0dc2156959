"""A whole installation on the real API server: Helm install and test, a machine, upgrade, rollback and uninstall.

There is no kubelet: the Pod of `helm test` is run as the program with its arguments, its variables and the token of its
service account; Azure is the emulator, which allows our role only.
"""

import asyncio
import os
from pathlib import Path

import helm_python
import pytest

from tests.cluster import assets
from tests.cluster.controlplane import CONTROLLERS, NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from tests.cluster.realworld import PROGRAM, RealWorld
from tests.world.azure_role import AZURE_ACTIONS
from tests.world.claims import ready, removed
from tests.world.harness import node_claim

from .release import CHART, RELEASE, Json, chart_values

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]


POD = f"/api/v1/namespaces/{NAMESPACE}/pods/{RELEASE}-check"
MERGE = "application/merge-patch+json"
READ_POOLS = "Microsoft.ContainerService/managedClusters/agentPools/read"
PATIENCE_SECONDS = 300


async def play_kubelet(cp: ControlPlane, home: Path, arm_url: str) -> str:
    """Run the Pod of `helm test` once it exists, and report its end; returns its output."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (found := await cp.request("GET", POD))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    (container,) = found[1]["spec"]["containers"]
    assert found[1]["spec"]["serviceAccountName"] == SERVICE_ACCOUNT
    token = await cp.service_account_token(SERVICE_ACCOUNT, NAMESPACE)
    outside = {
        "KUBECONFIG": str(cp.kubeconfig(home / "check.kubeconfig", "check", token=token)),
        "ARM_ENDPOINT": arm_url,
        "PATH": os.environ["PATH"],
    }
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        *container["args"],
        env={**variables, **outside},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    phase = "Succeeded" if process.returncode == 0 else "Failed"
    await cp.demand("PATCH", f"{POD}/status", {"status": {"phase": phase}}, MERGE)
    return f"{process.returncode}\n{output.decode()}"


async def helm_test(helm: helm_python.Config, cp: ControlPlane, home: Path, arm_url: str) -> tuple[str, str]:
    """Helm's stderr, and the output of the Pod."""
    async with asyncio.TaskGroup() as tasks:
        kubelet = tasks.create_task(play_kubelet(cp, home, arm_url))
        try:
            await asyncio.to_thread(helm.test, RELEASE, timeout=PATIENCE_SECONDS)
            error_message = ""
        except helm_python.HelmReleaseError as error:
            error_message = str(error)
    return error_message, kubelet.result()


def standing(world: RealWorld) -> list[Json]:
    """The claims with their status, and the pools with their tags: no release may change them."""
    claims = [{key: obj[key] for key in ("spec", "status")} for obj in world.store.list("nodeclaims.karpenter.sh")]
    return [*claims, *({pool.name: dict(pool.tags)} for pool in world.cloud.pools.values())]


async def test_an_installation_from_beginning_to_end(tmp_path: Path) -> None:
    """Install with defaults, a passing and a failing test, a machine; upgrade, rollback and uninstall leave it
    unchanged.
    """
    async with ControlPlane.start(assets.find(), tmp_path, controller_manager=CONTROLLERS) as cp:
        await cp.install_crds()
        config = cp.kubeconfig(tmp_path / "helm-config")
        with helm_python.Config(kubeconfig_path=config, namespace=NAMESPACE) as helm:
            async with RealWorld.open(cp, tmp_path) as world:
                await run_installation(helm, cp, world, tmp_path)


async def run_installation(helm: helm_python.Config, cp: ControlPlane, world: RealWorld, home: Path) -> None:
    """The test itself."""
    values = chart_values(world)
    made = await asyncio.to_thread(helm.install, CHART, RELEASE, values, create_namespace=True)
    assert made["status"] == "deployed"
    cp.controller_token = await cp.service_account_token(SERVICE_ACCOUNT, NAMESPACE)

    error_message, output = await helm_test(helm, cp, home, world.arm_url)
    assert error_message == "", output
    assert (await cp.request("GET", POD))[0] == 404
    world.cloud.configure(actions=AZURE_ACTIONS - {READ_POOLS})
    error_message, output = await helm_test(helm, cp, home, world.arm_url)
    assert output.startswith("3\n"), output
    assert f"{RELEASE}-check" in error_message
    assert (await cp.demand("GET", POD))["status"]["phase"] == "Failed"
    world.cloud.configure(actions=AZURE_ACTIONS)

    await world.start_controller()
    await world.apply(node_claim("ws1"))
    await ready(world, "ws1")
    await world.apply(node_claim("ws2"))
    await ready(world, "ws2")
    await removed(world, "ws2")
    before = standing(world)
    upgraded = await asyncio.to_thread(helm.upgrade, CHART, RELEASE, {**values, "replicas": 3, "logLevel": "debug"})
    assert upgraded["revision"] == 2
    await asyncio.to_thread(helm.rollback, RELEASE)
    assert standing(world) == before
    await world.stop_controller()
    await asyncio.to_thread(helm.uninstall, RELEASE)
    assert standing(world) == before
    assert (await cp.request("GET", "/apis/karpenter.sh/v1/nodeclaims/ws1"))[0] == 200
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}"
    assert (await cp.request("GET", account))[0] == 404
