"""CPU, memory and start time of an idle controller, of one that starts with work to do, and of one on a large cluster.

CPU and memory are the kernel's figures for the controller's process. The Nodes of the large cluster have the size of
Nodes in AKS: some thirty labels and fifty images each, 14 KiB as JSON.
"""

import asyncio
from statistics import median
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure import bodies

from .figures import Figure
from .moments import CONTROLLER
from .process import Controller
from .stage import AZURE, names, stage

IDLE_SECONDS = 15.0
STARTS = 5
WAITING, FLEET, NODES = 90, 100, 1000
POOL_NODES = 1000
Json = dict[str, Any]


async def measure() -> list[Figure]:
    """About 60 s."""
    return [*await _idle(), *await _large(), await _starts()]


async def _idle() -> list[Figure]:
    async with stage() as on, on.controller() as controller:
        await on.leading()
        await asyncio.sleep(2.0)
        share = await _cpu_share(controller)
        now_mib, most_mib = controller.memory_mib()
    return [
        Figure(
            name="resident memory, idle, no claims",
            unit="MiB",
            labels=("now", "peak"),
            predecessor="50",
            target=(105,),
            measured=(now_mib, most_mib),
        ),
        Figure(
            name="idle CPU, no claims",
            unit="% of a core",
            labels=("",),
            predecessor="~0",
            target=(0.5,),
            measured=(share,),
            note=f"over {IDLE_SECONDS:g} s",
        ),
    ]


async def _large() -> list[Figure]:
    wanted = names("fleet", FLEET)
    async with stage() as on:
        for number in range(NODES):
            on.world.store.create("nodes", foreign_node(number))
            await asyncio.sleep(0)
        async with on.controller() as controller:
            await on.leading()
            await on.create(wanted)
            await on.settled(wanted)
            share = await _cpu_share(controller)
            now_mib, most_mib = controller.memory_mib()
    return [
        Figure(
            name=f"resident memory, {NODES:,} Nodes and {FLEET} claims",
            unit="MiB",
            labels=("now", "peak"),
            target=(140,),
            measured=(now_mib, most_mib),
        ),
        Figure(
            name=f"idle CPU, {NODES:,} Nodes and {FLEET} claims",
            unit="% of a core",
            labels=("",),
            target=(0.5,),
            measured=(share,),
            note=f"over {IDLE_SECONDS:g} s",
        ),
    ]


async def _starts() -> Figure:
    took = [await _start() for _ in range(STARTS)]
    return Figure(
        name=f"start → first useful write, {WAITING} claims present",
        unit="s",
        labels=("p50", "max"),
        predecessor="0.2",
        target=(1.0,),
        measured=(median(took), max(took)),
    )


async def _start() -> float:
    async with stage() as on:
        await on.create(names("new", WAITING))
        async with on.controller() as controller:
            await on.until(lambda: bool(on.world.audit_log.writes(who=CONTROLLER)), 15.0, "the first write")
            return on.world.audit_log.writes(who=CONTROLLER)[0].at - controller.started_at


async def _cpu_share(controller: Controller) -> float:
    """In percent of one core."""
    before = controller.cpu_seconds()
    await asyncio.sleep(IDLE_SECONDS)
    return 100 * (controller.cpu_seconds() - before) / IDLE_SECONDS


def foreign_node(number: int) -> Json:
    """A Node of a pool of another owner, of the size of Nodes in AKS; a pool has 1,000 of them, as AKS permits."""
    pool, instance = f"others{number // POOL_NODES}", number % POOL_NODES
    name, machine = bodies.node_name(AZURE, pool, instance), bodies.machine_id(AZURE, pool, instance)
    machine = machine.replace(AZURE.machine_group, AZURE.machine_group.lower())
    images = [
        {
            "names": [
                f"mcr.microsoft.com/oss/v2/kubernetes/image{n}@sha256:{n:064x}",
                f"mcr.microsoft.com/image{n}:v1.2.{n}",
            ],
            "sizeBytes": 100_000_000 + n,
        }
        for n in range(50)
    ]
    found = {f"kubernetes.azure.com/label{n}": f"value-{n}" for n in range(25)}
    found |= {labels.AGENTPOOL: pool, labels.AKS_AGENTPOOL: pool, labels.HOSTNAME: name}
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"{kind}Reason", "message": "m" * 60}
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", *(f"Problem{n}" for n in range(12)))
    ]
    allocatable = {"cpu": "15740m", "memory": "62Gi", "pods": "110", "ephemeral-storage": "120000000000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": found},
        "spec": {"providerID": f"azure://{machine}", "podCIDR": "10.244.0.0/24"},
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": conditions,
            "images": images,
            "nodeInfo": {"kubeletVersion": "v1.33.2", "osImage": "Ubuntu 22.04.5 LTS"},
        },
    }
