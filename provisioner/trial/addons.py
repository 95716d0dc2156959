"""What other software of a cluster does for the examples: the MIG manager of the GPU Operator, an owner of startup
taints, and NVIDIA's DRA driver.

The MIG manager partitions the GPUs of a Node with the label `nvidia.com/mig.config` (strategy mixed: devices replace
whole GPUs). The owner of startup taints removes those of a claim from its Ready Node. The DRA driver runs on the Nodes
of `examples/dra`, and its chart has created its DeviceClass.

Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html,
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (devices of each profile).
"""

import asyncio
from typing import Any, Never

from provisioner.api import labels
from provisioner.simulator.snapshot import allocatable, conditions, labels_of
from provisioner.simulator.world import World
from provisioner.vendors import DIVISIONS, nvidia

Json = dict[str, Any]
DIVISION = DIVISIONS[0]
CLAIMS = "nodeclaims.karpenter.sh"
# Devices of one GPU with 80 GB.
DEVICES = {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
# Simulated seconds that both take.
WORK_SECONDS = 30.0
POLL_SECONDS = 0.1
# The Nodes that the values of the driver's chart in docs/how-to/dra.md select.
DRA_LABELS = {"example.com/gpu": "dra"}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {
        "selectors": [
            {
                "cel": {
                    "expression": "device.driver == 'gpu.nvidia.com' && "
                    "device.attributes['gpu.nvidia.com'].type == 'gpu'"
                }
            }
        ]
    },
}


def install(world: World) -> None:
    """Create the objects of charts that a cluster has before the examples are applied."""
    world.store.create("deviceclasses.resource.k8s.io", DEVICE_CLASS)


async def run(world: World, speed: float) -> Never:
    """Act on all Nodes until cancelled."""
    seen: dict[str, float] = {}
    now = asyncio.get_running_loop().time
    while True:
        claims = {claim["metadata"]["uid"]: claim for claim in world.store.each_served(CLAIMS)}
        for node in world.store.list("nodes"):
            claim = claims.get(labels_of(node).get(labels.CLAIM_UID, ""))
            if claim is None or not _ready(node):
                continue
            if now() - seen.setdefault(node["metadata"]["uid"], now()) >= WORK_SECONDS / speed:
                _partition(world, node)
                _remove_startup_taints(world, node, claim)
        await asyncio.sleep(POLL_SECONDS)


def _ready(node: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions(node))


def _partition(world: World, node: Json) -> None:
    profile = labels_of(node).get(DIVISION.config, "").removeprefix("all-")
    gpus = allocatable(node, nvidia.VENDOR.resource)
    if profile not in DEVICES or not gpus:
        return
    name, count = node["metadata"]["name"], str(gpus * DEVICES[profile])
    world.nodes.set_gpus(name, 0)
    devices = {DIVISION.slice_prefix + profile: count}
    world.store.patch("nodes", name, {"status": {"capacity": devices, "allocatable": devices}}, subresource="status")


def _remove_startup_taints(world: World, node: Json, claim: Json) -> None:
    startup = {(taint["key"], taint["effect"]) for taint in claim["spec"].get("startupTaints", ())}
    taints = node["spec"].get("taints") or []
    kept = [taint for taint in taints if (taint["key"], taint["effect"]) not in startup]
    if len(kept) < len(taints):
        world.store.patch("nodes", node["metadata"]["name"], {"spec": {"taints": kept}})
