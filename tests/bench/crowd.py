"""Memory of a controller that provisions for pods on a large cluster, on the simulated API server.

Nodes and pods have the size that they have in AKS. A decision for pending pods is made, and its machines are created,
while all of them are cached. The simulator holds the cluster, because a real API server takes minutes to store it.
"""

import asyncio

from .figures import Figure
from .footprint import foreign_node
from .stage import Stage, stage
from .workloads import NODE_POOL, UNSCHEDULABLE, gpu_pod, node_class, node_pool, running_pod

NODES, PODS, WORKLOADS, PENDING, MACHINES = 5000, 20_000, 250, 1000, 20
GPUS_OF_PENDING = (1, 1, 1, 2, 4)
MEMORY_MIB = 400
SELECTOR = f"karpenter.sh/nodepool={NODE_POOL}"


async def measure() -> list[Figure]:
    """About 60 s, most of it spent on creating the objects."""
    async with stage() as on:
        on.world.scheduler.stop()
        await _fill(on)
        async with on.controller() as controller:
            await on.leading()
            await on.until(lambda: _ready(on) >= MACHINES, 240.0, f"{MACHINES} machines are Ready")
            now_mib, most_mib = controller.memory_mib()
    return [
        Figure(
            name=f"resident memory, {NODES:,} Nodes, {PODS:,} pods of {WORKLOADS} workloads, {PENDING:,} pending",
            unit="MiB",
            labels=("now", "peak"),
            target=(MEMORY_MIB, MEMORY_MIB),
            measured=(now_mib, most_mib),
            note="simulated API server",
        )
    ]


async def _fill(on: Stage) -> None:
    store = on.world.store
    nodes = [foreign_node(number) for number in range(NODES)]
    for node in nodes:
        store.create("nodes", node)
        await asyncio.sleep(0)
    for namespace in {f"namespace-{number}" for number in range(40)}:
        store.create("namespaces", {"metadata": {"name": namespace}})
    for number in range(PODS):
        pod = running_pod(number, nodes[number % NODES]["metadata"]["name"], WORKLOADS)
        store.create("pods", pod, pod["metadata"]["namespace"])
        await asyncio.sleep(0)
    for number in range(PENDING):
        name = f"pending-{number}"
        store.create("pods", gpu_pod(name, GPUS_OF_PENDING[number % len(GPUS_OF_PENDING)]), "default")
        store.patch("pods", name, {"status": UNSCHEDULABLE}, "default", subresource="status")
        await asyncio.sleep(0)
    store.create("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
    store.create("nodepools.karpenter.sh", node_pool(limits={"nodes": str(MACHINES)}))


def _ready(on: Stage) -> int:
    """The number of Ready NodeClaims."""
    return len(on.moments.ready)
