"""The whole controller while it consolidates a large cluster: stalls of its event loop.

The machines and their pods are cached, judged, simulated and removed by the program in a process of its own, on the
simulated API server. The simulator has as many agent pools as are needed, which AKS does not permit.
"""

import asyncio
import json
import random
from typing import Any

import msgspec

from controllers.nodeclass import hash as node_class_hash
from controllers.nodepool.hash import hash_annotations
from provisioner.api import labels
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.simulator.azure.settings import AzureSettings

from .figures import Figure, percentile
from .stage import CLAIMS, Stage, stage
from .workloads import NODE_POOL, TOLERATION, node_class, node_pool

Json = dict[str, Any]

MACHINES, PODS = 1_000, 5
SIZES = ("Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3", "Standard_NC64as_T4_v3")
SECONDS = 90.0
STALL_MS = 50.0
AZURE = AzureSettings(
    throttle=False, max_agent_pools=MACHINES + 100, create_seconds=(0.0, 0.5), delete_seconds=(0.0, 0.5)
)


async def measure() -> list[Figure]:
    """About six minutes, most of it spent on creating the machines."""
    async with stage(AZURE) as on:
        on.world.scheduler.stop()
        stalls_file = on.folder / "stalls.json"
        async with on.controller(stalls_file=stalls_file):
            await on.leading()
            created = asyncio.get_running_loop().time()
            await _machines(on)
            await on.until(lambda: len(on.moments.ready) == MACHINES, 900.0, "all machines are Ready")
            await _pods(on)
            begun = asyncio.get_running_loop().time()
            change = {"spec": {"disruption": {"consolidateAfter": "30s"}}}
            on.world.store.patch("nodepools.karpenter.sh", NODE_POOL, change)
            await on.until(lambda: bool(on.moments.deleted), 300.0, "a machine is consolidated")
            first = asyncio.get_running_loop().time()
            await asyncio.sleep(SECONDS)
            ended = asyncio.get_running_loop().time()
        found = json.loads(stalls_file.read_text())
    marks = [f"first machine after {first - begun:.0f} s, {len(on.moments.deleted)} in {ended - begun:.0f} s"]
    return [
        _stalls(f"{MACHINES:,} machines created", found, created, begun),
        _stalls(f"{MACHINES:,} machines with {MACHINES * PODS:,} pods consolidated", found, begun, ended, *marks),
    ]


def _stalls(name: str, found: list[tuple[float, float]], begun: float, ended: float, *marks: str) -> Figure:
    stalls = [seconds for at, seconds in found if begun <= at <= ended]
    return Figure(
        name=f"{name}: loop stalls of the controller",
        unit="ms",
        labels=("p50", "p99", "max"),
        target=(STALL_MS, STALL_MS),
        measured=(1e3 * percentile(stalls, 0.5), 1e3 * percentile(stalls, 0.99), 1e3 * max(stalls)),
        note="; ".join([f"{len(stalls)} callbacks", *marks]),
    )


async def _machines(on: Stage) -> None:
    """Create a NodePool and NodeClaims as the provisioner creates them."""
    store, rng = on.world.store, random.Random(1)
    store.create("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never",
                  "budgets": [{"nodes": "10%"}]}  # fmt: skip
    store.create("nodepools.karpenter.sh", node_pool(disruption=disruption))
    pool = msgspec.convert(store.get("nodepools.karpenter.sh", NODE_POOL), NodePool)
    found = msgspec.convert(store.get("agentpoolnodeclasses.gpu-provisioner.sh", "default"), AgentPoolNodeClass)
    annotations = {**hash_annotations(pool), **node_class_hash.hash_annotations(found)}
    owner = {"apiVersion": pool.api_version, "kind": pool.kind, "name": pool.name, "uid": pool.metadata.uid}
    for number in range(MACHINES):
        size = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [rng.choice(SIZES)]}
        claim = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {
                "name": f"{NODE_POOL}-{number + 1}",
                "labels": {labels.NODEPOOL: NODE_POOL},
                "annotations": annotations,
                "finalizers": [labels.FINALIZER],
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
                "requirements": [size],
                "resources": {"requests": {}},
                "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
                "expireAfter": "Never",
            },
        }
        store.create(CLAIMS, claim)
        await asyncio.sleep(0)


async def _pods(on: Stage) -> None:
    """Create running pods without GPUs on each machine."""
    store, rng = on.world.store, random.Random(2)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    for claim in store.list(CLAIMS):
        for number in range(PODS):
            name = f"{claim['metadata']['name']}-{number}"
            amounts = {"cpu": f"{rng.randrange(100, 1500, 100)}m", "memory": "1Gi"}
            spec = {
                "nodeName": claim["status"]["nodeName"],
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": amounts}}],
                "tolerations": [TOLERATION],
            }
            store.create("pods", {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}, "default")
            store.patch("pods", name, {"status": {"phase": "Running"}}, "default", subresource="status")
        await asyncio.sleep(0)
