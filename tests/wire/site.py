"""A site with its processes, and commands that are run in it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from provisioner.api.crd import all_crds
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.world import Addresses, World, WorldSettings
from tests.cluster import processes
from tests.cluster.processes import Ended
from tests.ports import free_port

from .program import PROGRAM, ROOT, environment

LEASE = "gpu-provisioner-leader-election"
Json = dict[str, Any]
LEASES = "leases.coordination.k8s.io"
CLAIMS = "nodeclaims.karpenter.sh"
NAME = "ws1"
SECONDS = 30.0


async def ran(*arguments: str, env: Mapping[str, str]) -> Ended:
    """Run the program with these arguments in pipes to its end."""
    return await processes.ran([PROGRAM, *arguments], env, ROOT)


def led(world: World) -> None:
    """Create a Lease that has a holder."""
    renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "ctl", "leaseDurationSeconds": 30, "renewTime": renewed}
    world.store.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec}, "kube-system")


@dataclass
class Site:
    """A served simulator, and the settings of a process that runs against it."""

    world: World
    addresses: Addresses
    home: Path
    metrics: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)

    def env(self, **more: str) -> dict[str, str]:
        """The environment variables that the chart of Azure/gpu-provisioner sets, and the ARM endpoint."""
        azure = self.world.settings.azure
        values = {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "AZURE_NODE_RESOURCE_GROUP": azure.machine_group,
            "LOCATION": azure.location,
            "AZURE_TENANT_ID": "99999999-2222-3333-4444-555555555555",
            "AZURE_CLIENT_ID": "88888888-2222-3333-4444-555555555555",
            "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
            "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
            "DEPLOYMENT_MODE": "",
            "KARPENTER_SERVICE": "gpu-provisioner",
            "SYSTEM_NAMESPACE": "gpu-provisioner",
            "CONFIG_LOGGING_NAME": "gpu-provisioner-config-logging",
            "DISABLE_WEBHOOK": "true",
            "LEADER_ELECT": "false",
            "FEATURE_GATES": "NodeRepair=true",
            "E2E_TEST_MODE": "false",
            "METRICS_PORT": str(self.metrics),
            "HEALTH_PROBE_PORT": str(self.health),
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            "ARM_ENDPOINT": self.addresses.arm,
            "KUBECONFIG": str(self.home / "kubeconfig"),
        }
        return environment(self.home, **{**values, **more})

    def lease(self, name: str = "gpu-provisioner-leader-election") -> Json:
        found = self.world.store.get(LEASES, name, "kube-system")
        assert found is not None
        return found

    def conditions(self) -> dict[str, str]:
        claim = self.world.store.get(CLAIMS, NAME) or {}
        return {c["type"]: c["status"] for c in (claim.get("status") or {}).get("conditions") or ()}

    async def until(self, true: Callable[[], object], what: str) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not true():  # noqa: ASYNC110 - the process is another's
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"it never was so: {what}\n{self.world.audit_log.tail()}") from None

    async def listed(self) -> None:
        """Wait for a LIST of the pools as they are now: at this speed a pool can come and go between two LISTs."""
        before = len(self.lists())
        await self.until(lambda: len(self.lists()) > before, "the pools are listed")

    def lists(self) -> list[Call]:
        return [
            call for call in self.world.audit_log.calls(system="arm", verb="LIST", kind="pools") if call.status == 200
        ]


class Controller:
    """A running process; its log is read continuously."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip("\n"))

    @property
    def log(self) -> list[Json]:
        return [json.loads(line) for line in self.lines]

    def has_logged(self, message: str) -> bool:
        return any(entry["message"] == message for entry in self.log)

    async def end(self, *numbers: int) -> int:
        """Send these signals, 0.3 s apart, and wait for the end; returns the exit code."""
        for number in numbers:
            self.process.send_signal(number)
            await asyncio.sleep(0.3)
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


def run_story(story: Callable[[Site], Coroutine[Any, Any, None]], home: Path | None = None, **settings: Any) -> None:
    """Run a test against a simulator on loopback whose time passes a thousand times faster.

    Without `home` a new folder is the home of its processes.
    """
    if home is None:
        with TemporaryDirectory() as folder:
            return run_story(story, Path(folder), **settings)

    async def main() -> None:
        world_settings = WorldSettings(azure=AzureSettings(speed=1000.0), **settings)
        async with World(crds=all_crds().values(), now=lambda: datetime.now(UTC), settings=world_settings) as world:
            addresses = await world.listen()
            world.write_kubeconfig(home / "kubeconfig", addresses)
            await story(Site(world, addresses, home))

    return asyncio.run(main())


@contextlib.asynccontextmanager
async def run(
    site: Site, *arguments: str, env: Mapping[str, str], program: str = PROGRAM, cwd: Path = ROOT, **more: Any
) -> AsyncIterator[Controller]:
    """Run the program until it leads; it is killed at the end if it has not ended."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        **more,
    )
    controller = Controller(process)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.read())
        try:
            await site.until(
                lambda: controller.has_logged("became leader") or process.returncode is not None, "it leads"
            )
            assert process.returncode is None, controller.lines
            yield controller
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.stdout is not None
    assert await process.stdout.read() == b""


async def fetch(*urls: str) -> list[tuple[int, str]]:
    answers = []
    async with aiohttp.ClientSession(trust_env=False) as session:
        for url in urls:
            async with session.get(url) as response:
                answers.append((response.status, await response.text()))
    return answers
