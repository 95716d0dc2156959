"""What the tests of provisioning share: pods, volumes, and the machines that were requested for them."""

import asyncio
from collections.abc import Callable
from typing import Any

from provisioner.api import labels
from tests.world.demand import pod
from tests.world.harness import Json, Sim

HOURS = 3600.0
CRD = "customresourcedefinitions.apiextensions.k8s.io"
EVERYTHING = [{"operator": "Exists"}]


def running(sim: Sim, *names: str) -> list[str]:
    """Those of these pods that run."""
    found = {name: sim.store.get("pods", name, "default") or {} for name in names}
    return [name for name, one in found.items() if (one.get("status") or {}).get("phase") == "Running"]


def machines(sim: Sim) -> int:
    """The number of agent pools that were ever requested for NodePools."""
    return len({put.properties["tags"][labels.TAG_CLAIM_UID] for put in sim.cloud.request_log.puts})


def phase(sim: Sim, name: str) -> str:
    return ((sim.store.get("pods", name, "default") or {}).get("status") or {}).get("phase", "")


def with_cpu(name: str, cpu: str, **spec: Any) -> Json:
    wanted = pod(name, **spec)
    wanted["spec"]["containers"][0]["resources"] = {
        kind: {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": "1"} for kind in ("requests", "limits")
    }
    return wanted


def misfits(sim: Sim) -> list[Json]:
    """What the node class records."""
    found = sim.store.get("agentpoolnodeclasses.gpu-provisioner.sh", "default") or {}
    return (found.get("status") or {}).get("misfits") or []


def on_each_node(sim: Sim, act: Callable[[str], object], label: str = labels.NODEPOOL) -> None:
    """Act on each Node of a NodePool as soon as it has the label."""
    done: set[str] = set()

    def changed(kind: str, resource: str, obj: Json, _: object) -> None:
        name = obj["metadata"]["name"]
        if resource == "nodes" and kind != "DELETED" and label in obj["metadata"]["labels"] and name not in done:
            done.add(name)
            asyncio.get_running_loop().call_soon(act, name)

    sim.store.subscribe(changed)


def taint_nodes(sim: Sim) -> None:
    """A policy adds a taint to each Node."""

    def act(name: str) -> None:
        node = sim.store.get("nodes", name)
        assert node is not None
        taints = [*(node["spec"].get("taints") or ()), {"key": "policy.example.com/x", "effect": "NoSchedule"}]
        sim.store.patch("nodes", name, {"spec": {"taints": taints}})

    on_each_node(sim, act)


def disk_class(sim: Sim, name: str, **fields: object) -> None:
    body = {"metadata": {"name": name}, "provisioner": "disk.csi.azure.com", **fields}
    sim.store.create("storageclasses.storage.k8s.io", body)


def claim(sim: Sim, name: str, **spec: object) -> None:
    """Bound to its volume, if it has one."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    sim.store.create("persistentvolumeclaims", body, "default")


def disk(sim: Sim, name: str, zone: str) -> None:
    """A zonal disk, as the disk driver describes it."""
    terms = [{"matchExpressions": [{"key": "topology.disk.csi.azure.com/zone", "operator": "In", "values": [zone]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    sim.store.create("persistentvolumes", {"metadata": {"name": name}, "spec": {"nodeAffinity": affinity}})


def with_volume(name: str, claim_name: str) -> Json:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


def labelled(body: Json, **own: str) -> Json:
    body["metadata"]["labels"] = own
    return body
