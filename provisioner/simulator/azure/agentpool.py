"""The agent pool as a value, and its transitions. No clock, timers or HTTP.

A `Pool` is immutable; each transition gives a new one with a new eTag (docs/references/agent-pools.md#etags: the eTag
changes on every write, and the end of an operation is a write). `properties` are the members as AKS returns them, with
server defaults; state, power, error and eTag are separate fields.

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#responses,
docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/nodes.md#pods.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from provisioner.api import labels

from . import sizes
from .settings import AzureSettings

Properties = Mapping[str, Any]
BUSY = frozenset(
    {
        "Creating",
        "Updating",
        "Scaling",
        "Upgrading",
        "UpgradingNodeImageVersion",
        "Deleting",
        "Canceling",
        "Starting",
        "Stopping",
    }
)
SPOT_TAINT = f"{labels.AKS_SPOT}=spot:NoSchedule"
READ_ONLY = frozenset(
    {"provisioningState", "powerState", "eTag", "status", "currentOrchestratorVersion", "nodeImageVersion"}
)
_IMAGES = {
    "Ubuntu": "AKSUbuntu-2204gen2containerd",
    "Ubuntu2204": "AKSUbuntu-2204gen2containerd",
    "Ubuntu2404": "AKSUbuntu-2404gen2containerd",
    "AzureLinux": "AKSAzureLinux-V3gen2",
    "AzureLinux3": "AKSAzureLinux-V3gen2",
}


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One agent pool. `incarnation`: distinguishes it from earlier pools of its name; `machines`: instance ids.

    `operation`: the id of the running operation, or "". `next_instance`: the id of the next new machine; instance ids
    are never reused (docs/references/agent-pools.md#names-and-ids).
    """

    name: str
    properties: Properties
    state: str
    etag: str
    incarnation: int
    created: datetime
    power: str = "Running"
    error: Mapping[str, Any] | None = None
    machines: tuple[int, ...] = ()
    next_instance: int = 0
    operation: str = ""

    @property
    def size(self) -> str:
        return str(self.properties["vmSize"])

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(self.properties.get("availabilityZones") or ())

    @property
    def priority(self) -> str:
        return str(self.properties.get("scaleSetPriority") or "Regular")

    @property
    def count(self) -> int:
        return int(self.properties["count"])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.properties.get("nodeLabels") or {}

    @property
    def taints(self) -> tuple[str, ...]:
        return tuple(self.properties.get("nodeTaints") or ())

    @property
    def tags(self) -> Mapping[str, str]:
        return self.properties.get("tags") or {}

    @property
    def busy(self) -> bool:
        """Whether an operation holds the pool's lock."""
        return self.state in BUSY


def image(os_sku: str, release: str) -> str:
    """The name of a node image with its release."""
    return f"{_IMAGES.get(os_sku, _IMAGES['Ubuntu'])}-{release}"


def _default_disk_gib(size: str, kind: str, local: int) -> int:
    """Of a kind that is not stated: the whole local disk if it has 128 GiB; else the least that AKS creates."""
    if kind == "Managed":
        vcpus = (sizes.find(size) or sizes.Size()).vcpus
        return 1024 if vcpus >= 64 else 512 if vcpus >= 16 else 256 if vcpus >= 8 else 128
    return local if local >= 128 else 128


def with_defaults(sent: Properties, settings: AzureSettings, current: Properties | None = None) -> dict[str, Any]:
    """The properties as AKS stores them: without read-only members, with defaults, spot label and taint.

    `current`: those of an existing pool, whose Kubernetes version and node image stay.
    """
    filled = {key: copy.deepcopy(value) for key, value in sent.items() if key not in READ_ONLY and value is not None}
    filled.setdefault("vmSize", "Standard_D2s_v5")
    filled.setdefault("count", 1)
    local = settings.local_disks_gib.get(filled["vmSize"], 0)
    if not filled.get("osDiskSizeGB"):
        filled["osDiskSizeGB"] = _default_disk_gib(filled["vmSize"], str(filled.get("osDiskType", "")), local)
    filled.setdefault("osDiskType", "Ephemeral" if local >= filled["osDiskSizeGB"] else "Managed")
    filled.setdefault("kubeletDiskType", "OS")
    filled.setdefault("maxPods", _max_pods(settings))
    filled.setdefault("type", "VirtualMachineScaleSets")
    filled.setdefault("mode", "User")
    filled.setdefault("osType", "Linux")
    filled.setdefault("osSKU", "Ubuntu")
    filled.setdefault("enableFIPS", False)
    filled.setdefault("scaleDownMode", "Delete")
    version = str((current or {}).get("currentOrchestratorVersion") or settings.kubernetes_version)
    filled.setdefault("orchestratorVersion", version)
    filled.setdefault("upgradeSettings", {"maxSurge": "10%"})
    size = sizes.find(filled["vmSize"])
    if size is not None and size.gpus:
        filled.setdefault("gpuProfile", {"driver": "Install"})
    filled["currentOrchestratorVersion"] = version
    newest = image(filled["osSKU"], settings.node_image_release)
    filled["nodeImageVersion"] = (current or {}).get("nodeImageVersion") or newest
    if filled.get("scaleSetPriority") == "Spot":
        filled.setdefault("scaleSetEvictionPolicy", "Delete")
        filled.setdefault("spotMaxPrice", -1)
        filled["nodeLabels"] = {**(filled.get("nodeLabels") or {}), labels.AKS_SPOT: "spot"}
        taints = list(filled.get("nodeTaints") or ())
        filled["nodeTaints"] = taints if SPOT_TAINT in taints else [*taints, SPOT_TAINT]
    return filled


def _max_pods(settings: AzureSettings) -> int:
    """What AKS sets for a pool that does not state it."""
    if settings.network_plugin == "kubenet":
        return 110
    return 30 if settings.network_plugin == "azure" and not settings.network_plugin_mode else 250


def reconciled(pool: Pool, etag: str) -> Pool:
    """The pool with `count` machines: missing ones are added, surplus ones removed, the newest first."""
    missing = max(0, pool.count - len(pool.machines))
    added = tuple(range(pool.next_instance, pool.next_instance + missing))
    machines = (pool.machines + added)[: pool.count]
    return replace(pool, machines=machines, next_instance=pool.next_instance + missing, etag=etag)


def without_machines(pool: Pool, gone: tuple[int, ...], etag: str, *, shrink: bool = False) -> Pool:
    """Without these machines; with `shrink`, `count` decreases."""
    left = tuple(n for n in pool.machines if n not in gone)
    properties = {**pool.properties, "count": len(left)} if shrink else pool.properties
    return replace(pool, properties=properties, machines=left, etag=etag)


def failed(pool: Pool, error: Mapping[str, Any] | None, etag: str) -> Pool:
    """The operation failed: the pool stays, as `Failed`; with an error in `status.provisioningError`, if given."""
    return replace(pool, state="Failed", error=error, operation="", etag=etag)


def settled(pool: Pool, state: str, etag: str) -> Pool:
    """The operation ended in `state` (Succeeded or Canceled)."""
    error = None if state == "Succeeded" else pool.error
    return replace(pool, state=state, error=error, operation="", etag=etag)
