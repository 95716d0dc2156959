"""Short scenarios for the tests of the solver: instance types by name, pods by what they request."""

from typing import Any

import msgspec

from cloudprovider.azure.cloud import AksCloud
from controllers.provisioning.solver.model import Decision, Snapshot
from controllers.provisioning.solver.solver import solve
from provisioner.cli.commands.schedule_codec import Scenario, snapshot, types_of

GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
# name: vCPUs, GiB, GPUs, USD an hour
SIZES = {"cpu-4": (4, 16, 0, 0.2), "t4-1": (4, 28, 1, 0.5), "t4-4": (64, 440, 4, 4.3), "a100-8": (96, 1900, 8, 32.0)}


def instance_type(name: str, *, zones: tuple[str, ...] = ("z1", "z2", "z3"), **changes: Any) -> dict[str, Any]:
    cpus, gib, gpus, price = SIZES[name]
    values = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "model": name.split("-")[0]}
    return {
        "name": name,
        "requirements": [{"key": k, "operator": "In", "values": [v]} for k, v in values.items()]
        + [{"key": ZONE, "operator": "In", "values": [*zones]}],
        "capacity": {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})},
        "overhead": {"cpu": "100m"},
        "offerings": [{"Zone": zone, "CapacityType": "on-demand", "Price": price, "Available": True} for zone in zones],
        **changes,
    }


def node_pool(name: str = "gpu", **changes: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": changes.pop("labels", {})},
        "spec": {
            "requirements": changes.pop("requirements", []),
            "taints": changes.pop("taints", []),
            "startupTaints": changes.pop("startup_taints", []),
        },
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **changes}}


def pod(
    name: str, *, gpus: int = 0, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    containers = [{"resources": {"requests": requests}}]
    return {"metadata": {"name": name, "labels": labels or {"app": "a"}}, "spec": {"containers": containers, **spec}}


def pods(count: int, **kwargs: Any) -> list[dict[str, Any]]:
    return [pod(f"p{number:02}", **kwargs) for number in range(count)]


def node(name: str, size: str, *, zone: str = "z1", running: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    cpus, gib, gpus, _ = SIZES[size]
    sizes = {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110", GPU: str(gpus)}
    labels = {HOSTNAME: name, ZONE: zone, "model": size.split("-")[0]}
    return {
        "node": {"metadata": {"name": name, "labels": labels}, "status": {"capacity": sizes, "allocatable": sizes}},
        "pods": running or [],
    }


def given(**parts: Any) -> Snapshot:
    """The snapshot of a scenario; by default all sizes, and one NodePool without requirements."""
    scenario = {
        "nodePools": [node_pool()],
        "instanceTypes": [instance_type(name) for name in SIZES],
        "wellKnownLabels": ["model"],
        **parts,
    }
    return read(scenario)


def read(scenario: dict[str, Any]) -> Snapshot:
    """The snapshot of exactly this scenario."""
    stated = msgspec.convert(scenario, Scenario)
    found = snapshot(stated, types_of(stated, AksCloud()))
    assert not found.errors
    return found.snapshot


def decide(**parts: Any) -> Decision:
    """The decision for a scenario, with the values of `given`."""
    return solve(given(**parts))


def bought(decision: Decision) -> list[str]:
    """The instance type of each new machine, sorted."""
    return sorted(machine.instance_types[0] for machine in decision.machines)
