"""The Node objects, as the kubelet, the cloud node manager and the node controller write them on AKS.

Pure; plain JSON. `registration` is the object that the kubelet creates (labels, the pool's taints and two initial
ones, no providerID), `status` its first status, `initialization` what the cloud node manager adds.

Source: docs/references/agent-pools.md#names-and-ids, docs/references/agent-pools.md#labels-and-taints,
docs/references/nodes.md, docs/references/kaito.md#end-to-end-checks (osImage),
https://kubernetes.io/docs/reference/labels-annotations-taints/.
"""

from collections.abc import Mapping
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure import bodies, sizes
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.settings import AzureSettings

from . import resources
from .machine import NodeSettings

Json = dict[str, Any]
_IMAGES = {
    "Ubuntu": "Ubuntu 22.04.5 LTS",
    "Ubuntu2204": "Ubuntu 22.04.5 LTS",
    "Ubuntu2404": "Ubuntu 24.04.3 LTS",
    "AzureLinux": "Microsoft Azure Linux 3.0",
    "AzureLinux3": "Microsoft Azure Linux 3.0",
}
_AKS = "kubernetes.azure.com/"


def taint(text: str) -> Json:
    """A pool's `key=value:Effect` as a Node's taint."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def registration(settings: AzureSettings, nodes: NodeSettings, pool: Pool, name: str) -> Json:
    """The Node as kubelet creates it."""
    created = [{"key": labels.UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}]
    not_ready = [{"key": labels.NOT_READY_TAINT, "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**node_labels(settings, pool, name), **nodes.aks_labels}},
        "spec": {"taints": [*map(taint, pool.taints), *map(taint, nodes.agent_taints), *created, *not_ready]},
    }


def node_labels(settings: AzureSettings, pool: Pool, name: str) -> dict[str, str]:
    """The pool's labels, overridden by AKS's; the cloud node manager adds zone, region and size later."""
    size = sizes.find(pool.size) or sizes.Size()
    sku = str(pool.properties["osSKU"])
    aks = {
        "agentpool": pool.name,
        "mode": str(pool.properties["mode"]).lower(),
        "role": "agent",
        "cluster": settings.machine_group,
        "managedby": "aks",
        "node-image-version": str(pool.properties["nodeImageVersion"]),
        "os-sku": sku,
        "os-sku-effective": "Ubuntu2204" if sku == "Ubuntu" else sku,
        "os-sku-requested": sku,
        "nodepool-type": str(pool.properties["type"]),
        "sku-cpu": str(size.vcpus),
        "sku-memory": str(size.memory_gib * 1024),
        "storageprofile": str(pool.properties["osDiskType"]).lower(),
        "storagetier": "Premium_LRS",
        "priority": pool.priority.lower(),
    }
    if settings.network_plugin_mode == "overlay":
        aks |= {"azure-cni-overlay": "true", "podnetwork-type": "overlay"}
    if subnet := pool.properties.get("vnetSubnetID"):
        aks["network-subnet"] = str(subnet).rpartition("/")[2]
    if size.vendor:
        aks["accelerator"] = size.vendor
    found = {**pool.labels, **{_AKS + key: value for key, value in aks.items()}}
    found |= {labels.AGENTPOOL: pool.name, "storageprofile": aks["storageprofile"], "storagetier": aks["storagetier"]}
    if size.vendor:
        found["accelerator"] = size.vendor
    return found | default_labels(pool, name)


def default_labels(pool: Pool, name: str) -> dict[str, str]:
    """The labels that the kubelet refreshes on an existing Node."""
    return {labels.HOSTNAME: name, labels.OS: "linux", labels.ARCH: _arch(pool)}


def initialization(settings: AzureSettings, pool: Pool, instance: int) -> tuple[str, dict[str, str]]:
    """The cloud node manager's part: providerID, with the group in lower case, and the labels from Azure."""
    group = settings.machine_group
    machine = bodies.machine_id(settings, pool.name, instance).replace(f"/{group}/", f"/{group.lower()}/")
    zone = f"{settings.location}-{pool.zones[instance % len(pool.zones)]}" if pool.zones else settings.regional_zone
    return f"azure://{machine}", {
        labels.INSTANCE_TYPE: pool.size,
        labels.REGION: settings.location,
        **({labels.ZONE: zone} if zone else {}),
    }


def status(settings: AzureSettings, pool: Pool, boot_id: str, instance: int, shares: Mapping[str, float]) -> Json:
    """Capacity, allocatable, addresses and nodeInfo, without GPUs. `shares`: see NodeSettings.allocatable_shares."""
    found = resources.of(pool.size, int(pool.properties["maxPods"]), int(pool.properties["osDiskSizeGB"]))
    plain = {"hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": str(pool.properties["maxPods"])}
    return {
        "capacity": {
            **plain,
            "cpu": str(found.vcpus),
            "memory": f"{found.memory_kib}Ki",
            "ephemeral-storage": f"{found.disk_kib}Ki",
        },
        "allocatable": {
            **plain,
            "cpu": f"{int(found.free_cpu_milli * shares.get('cpu', 1.0))}m",
            "memory": f"{int(found.free_memory_kib * shares.get('memory', 1.0))}Ki",
            "ephemeral-storage": str(int(found.free_disk_bytes * shares.get("ephemeral-storage", 1.0))),
        },
        "addresses": [
            {"type": "Hostname", "address": bodies.node_name(settings, pool.name, instance)},
            {"type": "InternalIP", "address": bodies.address(pool, instance)},
        ],
        "nodeInfo": node_info(pool, boot_id),
    }


def node_info(pool: Pool, boot_id: str) -> dict[str, str]:
    """The nodeInfo of a machine; a reboot changes the boot id."""
    return {
        "architecture": _arch(pool),
        "bootID": boot_id,
        "containerRuntimeVersion": "containerd://2.0.5",
        "kernelVersion": "5.15.0-1091-azure",
        "kubeProxyVersion": "",
        "kubeletVersion": f"v{pool.properties['currentOrchestratorVersion']}",
        "machineID": f"{pool.incarnation:032x}",
        "operatingSystem": "linux",
        "osImage": _IMAGES.get(str(pool.properties["osSKU"]), _IMAGES["Ubuntu"]),
        "systemUUID": f"00000000-0000-0000-0000-{pool.incarnation:012x}",
    }


def _arch(pool: Pool) -> str:
    """The Grace-Blackwell hosts are arm64."""
    return "arm64" if "_GB" in pool.size else "amd64"
