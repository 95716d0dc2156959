"""Stories of one machine whose GPUs come from the kubelet's own device manager, with the real API server and program.

Machines, Azure and the rest of the Nodes are simulated; the minutes of GPUs are real. `Bench` has the machine of one
story and measures what its device manager and its Node have after an event.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from provisioner.simulator.nodes.admission import refusal
from provisioner.simulator.nodes.device_plugin import Devices
from provisioner.simulator.nodes.pod_lifecycle import accepted_status
from tests.world.claims import CLAIMS, Seen, condition, message, ready, versions, word
from tests.world.demand import pod
from tests.world.harness import node_claim

from .gpunode import GPUS, RESOURCE, GpuNode
from .realworld import RealWorld

Json = dict[str, Any]
EIGHT = "Standard_ND96isr_H100_v5"
SOON = 60.0
# The longest wait of a story: the tolerance of missing GPUs, with a margin.
PATIENCE_SECONDS = 450.0
TOLERATED_SECONDS = 360.0
REFUSED = "Pod was rejected: "


class Measured(NamedTuple):
    """When the device manager had these values, and how long after the event; `node_seconds`: until the Node had them,
    None if that was not looked at.
    """

    event: str
    capacity: int
    allocatable: int
    at: float
    seconds: float
    node_seconds: float | None = None


@dataclass
class Bench:
    """The machine of one claim. `node_versions` has every version of its Node."""

    world: RealWorld
    machine: GpuNode
    name: str
    uid: str = ""
    claim_versions: list[Seen] = field(default_factory=list)
    node_versions: list[Seen] = field(default_factory=list)
    table: list[Measured] = field(default_factory=list)

    def on_node(self) -> tuple[int | None, int | None]:
        """Capacity and allocatable of the Node."""
        return counts(self.world.store.get("nodes", self.machine.name))

    async def shows(self, *expected: int | None, within_seconds: float = SOON) -> None:
        await self.world.until(lambda: self.on_node() == expected, within_seconds, f"{self.name} has {expected}")

    async def measure(
        self, event: str, act: Callable[[], None], *expected: int, within_seconds: float = SOON, node: bool = True
    ) -> None:
        """Do it, and wait until the device manager, and then the Node, have the expected values."""
        began = time.time()
        act()

        def reached() -> bool:
            values = self.machine.values
            return values is not None and values.at >= began and values[1:] == expected

        await self.world.until(reached, within_seconds, f"{event} of {self.name}: {self.machine.errors()}")
        values = self.machine.values
        assert values is not None
        if node:
            await self.shows(*expected)
        seconds = time.time() - began if node else None
        self.table.append(Measured(event, expected[0], expected[1], values.at, values.at - began, seconds))

    def restart(self, name: str) -> None:
        self.machine.kill(name)
        self.machine.start(name)

    def kept(self) -> None:
        """Check that the claim is the same, with the one pool that it has had, and that nothing was deleted."""
        claim = self.world.claim(self.name)
        assert claim is not None
        assert claim["metadata"]["uid"] == self.uid
        assert "deletionTimestamp" not in claim["metadata"]
        calls = [(call.method, call.status) for call in self.world.cloud.requests if call.pool == self.name]
        assert [status for verb, status in calls if verb == "PUT"] == [201], calls
        assert not [call for call in calls if call[0] == "DELETE"], calls

    def always_ready(self) -> None:
        """Check that every version of the claim since it was Ready is Ready and Initialized."""
        words = [word(seen.obj, kind) for seen in self.claim_versions for kind in ("Ready", "Initialized")]
        states = [status for status, _ in words]
        assert set(states[states.index("True") :]) == {"True"}, words

    def ready_only_with_all_gpus(self) -> None:
        """Check that the Node had all its GPUs at each moment at which the claim became Initialized.

        The order is that of the API server: the two watches deliver independently of each other.
        """
        was = ""
        for seen in self.claim_versions:
            now, _ = word(seen.obj, "Initialized")
            if (now, was) == ("True", "True") or now != "True":
                was = now
                continue
            before = [node.obj for node in self.node_versions if revision(node.obj) <= revision(seen.obj)]
            assert before, "it is Initialized without a Node"
            assert counts(before[-1]) == (GPUS, GPUS), f"{self.name} is Ready with {counts(before[-1])}"
            was = now


def revision(obj: Json | None) -> int:
    """The revision of etcd at which this version was written."""
    return int(((obj or {}).get("metadata") or {}).get("resourceVersion", "0"))


def counts(node: Json | None) -> tuple[int | None, int | None]:
    """Capacity and allocatable of a Node."""
    status = (node or {}).get("status") or {}
    capacity, allocatable = (status.get(kind, {}).get(RESOURCE) for kind in ("capacity", "allocatable"))
    return (None if capacity is None else int(capacity), None if allocatable is None else int(allocatable))


async def open_bench(world: RealWorld, machines: Callable[[str, str, float], GpuNode], name: str, sync: float) -> Bench:
    """Create a claim and wait until its Node is Ready; it has no kubelet of ours yet."""
    seen = versions(world, name, CLAIMS)
    await world.apply(node_claim(name, size=EIGHT))

    def node() -> str:
        found = [one for one in world.nodes_of(name) if condition(one, "Ready").get("status") == "True"]
        return found[0]["metadata"]["name"] if found else ""

    node_name = await world.until(node, SOON, f"{name} has a Ready Node")
    claim = world.claim(name)
    assert claim is not None
    made = Bench(world, machines(name, node_name, sync), name, claim["metadata"]["uid"], seen)
    made.node_versions = versions(world, node_name, "nodes")
    return made


async def serve(bench: Bench) -> None:
    """Start kubelet and plugin; the claim is Ready only then."""
    assert word(bench.world.claim(bench.name), "Ready")[0] != "True"
    bench.machine.start("kubelet")
    await bench.measure("plugin starts", lambda: bench.machine.start("plugin"), GPUS, GPUS)
    await ready(bench.world, bench.name)


async def plugin_restarts(bench: Bench) -> None:
    """20 restarts of the plugin, each of which the Node shows: no repair, no new claim, Ready all the time."""
    await serve(bench)
    for _ in range(20):
        await bench.measure("plugin stops", lambda: bench.machine.kill("plugin"), GPUS, 0)
        await bench.measure("plugin is back", lambda: bench.machine.start("plugin"), GPUS, GPUS)
    bench.always_ready()
    bench.kept()


async def kubelet_restarts(bench: Bench) -> None:
    """Restarts of the kubelet beside a running plugin, one without it, and one in between: Ready all the time."""
    await serve(bench)
    for _ in range(5):
        await bench.measure("kubelet restarts", lambda: bench.restart("kubelet"), GPUS, GPUS, node=False)
        await asyncio.sleep(12.0)
        assert bench.on_node() == (GPUS, GPUS)
    bench.machine.kill("plugin")
    await bench.measure("kubelet restarts without the plugin", lambda: bench.restart("kubelet"), 0, 0)
    await bench.measure("plugin is back", lambda: bench.machine.start("plugin"), GPUS, GPUS)
    bench.always_ready()
    bench.kept()


async def late_plugin(bench: Bench) -> None:
    """The kubelet restarts twice before the plugin starts; the claim is Ready with the plugin and not before."""
    bench.machine.start("kubelet")
    for _ in range(2):
        await asyncio.sleep(5.0)
        bench.restart("kubelet")
    assert word(bench.world.claim(bench.name), "Ready")[0] != "True"
    assert bench.on_node() == (None, None)
    await bench.measure("plugin starts", lambda: bench.machine.start("plugin"), GPUS, GPUS)
    await ready(bench.world, bench.name)
    bench.kept()


async def reboot(bench: Bench) -> None:
    """After a reboot the Node is Ready with the GPUs of before; the claim is Ready when the plugin has registered."""
    world, node = bench.world, bench.machine.name
    await serve(bench)
    for process in ("plugin", "kubelet"):
        bench.machine.kill(process)
    world.nodes.set_ready(node, False)
    await world.until(lambda: world.condition(bench.name, "Ready") == "False", SOON, "it reports the reboot")
    world.store.patch("nodes", node, {"status": {"nodeInfo": {"bootID": "after"}}}, subresource="status")
    world.nodes.set_ready(node, True)
    await asyncio.sleep(8.0)
    assert bench.on_node() == (GPUS, GPUS)
    assert world.condition(bench.name, "Ready") == "False", "it trusts the GPUs of before the reboot"
    await bench.measure("kubelet starts after a reboot", lambda: bench.machine.start("kubelet"), 0, 0)
    await asyncio.sleep(5.0)
    assert world.condition(bench.name, "Ready") == "False"
    await bench.measure("plugin is back", lambda: bench.machine.start("plugin"), GPUS, GPUS)
    await ready(world, bench.name)
    bench.kept()


async def dead_plugin(bench: Bench) -> None:
    """8/0, after 300 s 0/0 with the key; the claim is not Ready after 360 s, and Ready when the plugin is back."""
    world = bench.world
    await serve(bench)
    refused(bench, "many", GPUS + 1, Devices(resource=RESOURCE, count=GPUS).served())
    assert bench.machine.allocate("user", 1) == ("", "")
    lost_at = world.now
    await bench.measure("plugin stops", lambda: bench.machine.kill("plugin"), GPUS, 0)
    stopped = Devices(resource=RESOURCE, count=GPUS).served().stopped()
    refused(bench, "stopped", 1, stopped)
    await bench.measure("plugin stays away", lambda: None, 0, 0, within_seconds=PATIENCE_SECONDS)
    refused(bench, "removed", 1, stopped.expired(), users=1)
    bench.always_ready()
    await loses_ready(bench, lost_at)
    await bench.measure("plugin is back", lambda: bench.machine.start("plugin"), GPUS, GPUS)
    await ready(world, bench.name)
    bench.kept()


async def unhealthy_device(bench: Bench) -> None:
    """8/7 until the plugin restarts: the claim reports 7 of 8 after 360 s, and a pod keeps its machine meanwhile."""
    world, user = bench.world, f"{bench.name}-user"
    await serve(bench)
    world.store.create("pods", pod(user, gpus=1, nodeName=bench.machine.name), "default")
    lost_at = world.now
    await bench.measure("a device is unhealthy", lambda: bench.machine.fail(3), GPUS, GPUS - 1)
    await loses_ready(bench, lost_at)
    assert f"{GPUS - 1} of {GPUS}" in message(world, bench.name, "Initialized")
    assert bench.on_node() == (GPUS, GPUS - 1)
    await bench.measure("plugin restarts", lambda: bench.restart("plugin"), GPUS, GPUS)
    await ready(world, bench.name)
    bench.kept()
    world.store.delete("pods", user, "default", grace=0)


async def loses_ready(bench: Bench, lost_at: float) -> None:
    """The claim stays Ready for the tolerance, counted from `lost_at`, the time before the event."""
    world = bench.world

    def lost() -> bool:
        return word(world.claim(bench.name), "Initialized") == ("False", "GPUUnavailable")

    await world.until(lost, PATIENCE_SECONDS, "it reports the missing GPUs")
    assert world.now - lost_at >= TOLERATED_SECONDS - 1.0
    assert world.condition(bench.name, "Ready") == "False"


def refused(bench: Bench, name: str, count: int, devices: Devices, users: int = 0) -> None:
    """The device manager refuses a pod as the simulated kubelet does."""
    body, other = pod(name, gpus=count), pod("user", gpus=1)
    expected = refusal(body, devices, [{**other, "status": accepted_status(other, "")}] * users)
    assert expected is not None
    found = bench.machine.allocate(name, count)
    assert found == (expected.reason, expected.message.removeprefix(REFUSED)), found


Story = Callable[[Bench], Awaitable[None]]

# Each story with the seconds between two updates of its Node's status: ten, as the kubelet's, where it matters.
STORIES: dict[str, tuple[Story, float]] = {
    "restarts": (plugin_restarts, 1.0),
    "kubelet": (kubelet_restarts, 10.0),
    "late": (late_plugin, 1.0),
    "reboot": (reboot, 1.0),
    "dead": (dead_plugin, 10.0),
    "partial": (unhealthy_device, 10.0),
}
