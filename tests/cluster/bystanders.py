"""Other clients of the API server while the program runs: users with one client each, and machines that become Nodes.

They retry while the API server is unavailable.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from provisioner.api import labels
from provisioner.simulator.azure import bodies, sizes
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes import node_objects
from provisioner.simulator.nodes.machine import NodeSettings

from .controlplane import ControlPlane

Json = dict[str, Any]

CLAIMS_PATH = "/apis/karpenter.sh/v1/nodeclaims"
NODES_PATH = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
AGAIN_SECONDS = 0.2
TRIES = 150
CLOSING_SECONDS = 10.0
# Responses of an API server that starts, stops, or has not read its etcd yet.
AWAY = frozenset({401, 403, 429, 500, 503, 504})


class Hand:
    """One user's client: a session of its own that retries while the API server is unavailable."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> tuple[int, Any]:
        """(status, JSON); a write without a response may be sent twice."""
        for _ in range(TRIES):
            try:
                headers = {"Content-Type": kind}
                async with self.session.request(method, path, json=body, headers=headers) as answer:
                    if answer.status not in AWAY:
                        return answer.status, await answer.json()
            except (OSError, aiohttp.ClientError):
                pass
            await asyncio.sleep(AGAIN_SECONDS)
        raise AssertionError(f"{method} {path}: the API server stays away")

    async def demand(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        """Raises AssertionError with the server's message if the request is refused."""
        status, answer = await self.ask(method, path, body, kind)
        assert status < 400 or (method, status) in {("POST", 409), ("DELETE", 404)}, f"{method} {path}: {answer}"
        return answer


async def at_once(works: list[Callable[[], Awaitable[object]]], most: int = 50) -> None:
    """Run all of them, at most `most` at a time."""
    todo = iter(works)

    async def worker() -> None:
        for work in todo:
            await work()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(most):
            tasks.create_task(worker())


@asynccontextmanager
async def user_client(cp: ControlPlane) -> AsyncIterator[Hand]:
    """A user's client; at the end no file descriptor is open that was not open before.

    Each descriptor is compared, not their number: descriptors that earlier tests left to be closed (Helm keeps
    connections in this process) would hide as many that outlive this loop, and fail a later test.
    """
    # azure-core takes request IDs from uuid1, for which libuuid keeps its clock file open from the first one on.
    uuid.uuid1()
    before = open_files()
    async with cp.session() as session:
        yield Hand(session)
    deadline = asyncio.get_running_loop().time() + CLOSING_SECONDS
    while left := open_files() - before:
        assert asyncio.get_running_loop().time() < deadline, f"left open: {sorted(left)}"
        await asyncio.sleep(0.1)  # TLS closes its connections asynchronously


def open_files() -> frozenset[str]:
    """The target of each file descriptor of this process; each socket has a unique number."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this directory
            found.append(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
    return frozenset(found)


def crowd_name(number: int) -> str:
    """The name of a Node of the agent pool `theirs`, in the form in which AKS names Nodes."""
    return f"aks-theirs-12345678-vmss{number:06d}"


def bulky_node(number: int) -> Json:
    """A Node of the size that Nodes have in real clusters."""
    images = [{"names": [f"registry.example.com/team-{n}/image@sha256:{n:064x}"], "sizeBytes": n} for n in range(40)]
    found = {f"example.com/label-{n}": f"value-{n}" for n in range(30)}
    name = crowd_name(number)
    meta = {"name": name, "labels": {**found, "agentpool": "theirs", "kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"images": images}}


async def machines(hand: Hand, cloud: AzureCloud) -> None:
    """Create a Ready Node with its GPU for each running pool, for several at once, until cancelled."""
    born: set[int] = set()
    changed = asyncio.Event()
    cloud.subscribe(lambda *_: changed.set())
    async with asyncio.TaskGroup() as tasks:
        while True:
            changed.clear()
            for pool in list(cloud.pools.values()):
                if pool.state == "Succeeded" and pool.tags and pool.incarnation not in born:
                    born.add(pool.incarnation)
                    tasks.create_task(_boot(hand, cloud.settings, pool))
            await changed.wait()


async def _boot(hand: Hand, settings: AzureSettings, pool: Pool) -> None:
    """Create the Node, and remove the not-ready taint, which admission adds to each Node, as the node controller does
    for a Ready Node.
    """
    body = _node(settings, pool)
    path = f"{NODES_PATH}/{body['metadata']['name']}"
    # A request is repeated if its answer was lost in a restart of the server, and the Node then exists.
    await hand.demand("POST", NODES_PATH, body)
    node = await hand.demand("GET", path)
    while True:
        # A request whose answer was lost in a restart of the server may have removed the last one.
        kept = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != labels.NOT_READY_TAINT]
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": kept},
        }
        status, answer = await hand.ask("PATCH", path, patch, MERGE)
        if status != 409:
            assert status == 200, answer
            return
        node = await hand.demand("GET", path)


def _node(settings: AzureSettings, pool: Pool) -> Json:
    name = bodies.node_name(settings, pool.name, 0)
    node = node_objects.registration(settings, NodeSettings(), pool, name)
    provider_id, found = node_objects.initialization(settings, pool, 0)
    node["metadata"]["labels"] |= found
    node["spec"]["taints"] = [taint for taint in node["spec"]["taints"] if taint["key"] != labels.UNINITIALIZED_TAINT]
    node["spec"]["providerID"] = provider_id
    status = node_objects.status(settings, pool, "b", 0, {})
    size = sizes.find(pool.size)
    for amounts in (status["capacity"], status["allocatable"]):
        amounts["nvidia.com/gpu"] = str(size.gpus if size is not None else 0)
    now = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting"}
    status["conditions"] = [{**condition, "lastHeartbeatTime": now, "lastTransitionTime": now}]
    return {**node, "status": status}
