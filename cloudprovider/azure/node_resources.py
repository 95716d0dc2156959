"""What the operating system, the kubelet and the number of pods leave of a VM size: formulas, until a Node was seen.

Pure. The published formulas, with a margin where hardware varies: memory and file systems. Amounts are in thousandths
of the unit of Kubernetes where no other unit is named.

Source: docs/references/nodes.md#reserved-resources, docs/references/nodes.md#pods,
docs/references/nodes.md#ephemeral-storage.
"""

from collections.abc import Mapping

from cloudprovider.interface import ResourceSku
from provisioner.api.nodeclass import NodeClassSpec

# What AKS sets if a pool does not state it, by network plugin; MAX_PODS for a cluster that is not known.
MAX_PODS = 110
NODE_SUBNET_PODS = 30
OVERLAY_PODS = 250
# The least size of the OS disk of a pool that does not state it, and that of a managed one from these numbers of vCPUs.
DISK_GIB = 128
_MANAGED_GIB = ((64, 1024), (16, 512), (8, 256), (0, DISK_GIB))
# kube-reserved: a share of each part of the cores in thousandths; the parts end at these numbers of cores.
_CPU_SHARES = ((1, 60), (2, 40), (4, 20))
_CPU_REST = 10
_EVICTION_MIB = 100
_VM_OVERHEAD = 0.075
# The share of a disk that its file system has, and the part of that which is left before the kubelet evicts pods.
_FILE_SYSTEM = 0.96
_EVICTION_SHARE = 0.9
UNIT = 1000
MIB = 2**20 * UNIT


def default_max_pods(plugin: str, mode: str) -> int:
    """How many pods a Node of a pool without `maxPods` takes, by the network plugin of the cluster and its mode."""
    match plugin.casefold(), mode.casefold():
        case ("azure", "overlay") | ("none", _):
            return OVERLAY_PODS
        case ("azure", _):
            return NODE_SUBNET_PODS
    return MAX_PODS


def reserved(vcpus: int, memory_gib: int, max_pods: int = MAX_PODS) -> dict[str, int]:
    """What the VM, the system and the kubelet take of a machine."""
    milli, before = 0, 0
    for cores, share in _CPU_SHARES:
        milli += max(0, min(vcpus, cores) - before) * share
        before = cores
    milli += max(0, vcpus - before) * _CPU_REST
    mib = memory_gib * 1024
    taken = int(mib * _VM_OVERHEAD) + kube_reserved_mib(mib, max_pods) + _EVICTION_MIB
    return {"cpu": milli, "memory": taken * MIB}


def kube_reserved_mib(memory_mib: int, max_pods: int) -> int:
    """The memory that the kubelet reserves: 20 MiB for each possible pod and 50 MiB, or a quarter if that is less."""
    return min(20 * max_pods + 50, memory_mib // 4)


def managed_disk_gib(vcpus: int) -> int:
    """The size of the managed OS disk of a pool that does not state it."""
    return next(gib for least, gib in _MANAGED_GIB if vcpus >= least)


def default_disk_gib(vcpus: int, sku: ResourceSku | None) -> int:
    """The size of the OS disk of a pool that states neither its size nor its kind; the least that it can be.

    `sku`: what is known of the size; None if nothing is.
    """
    if sku is None or sku.ephemeral is None:
        return DISK_GIB
    if sku.ephemeral and sku.temp_gib >= DISK_GIB:
        return sku.temp_gib
    if sku.ephemeral and max(sku.cache_gib, sku.nvme_gib) >= DISK_GIB:
        return DISK_GIB  # AKS may use either of these, or a managed disk
    return managed_disk_gib(vcpus)


def ephemeral_storage(disk_gib: int) -> tuple[int, int]:
    """Capacity and allocatable ephemeral storage of an OS disk."""
    size = int(disk_gib * 2**30 * _FILE_SYSTEM)
    return size * UNIT, int(size * _EVICTION_SHARE) * UNIT


def of_node_class(
    capacity: Mapping[str, int], allocatable: Mapping[str, int], settings: NodeClassSpec
) -> tuple[dict[str, int], dict[str, int]]:
    """The amounts of a machine that these settings change: its pods, their memory, and its OS disk."""
    changed, left = dict[str, int](), dict[str, int]()
    if settings.max_pods is not None:
        memory = capacity.get("memory", 0) // MIB
        before = kube_reserved_mib(memory, capacity.get("pods", 0) // UNIT)
        more = (before - kube_reserved_mib(memory, settings.max_pods)) * MIB
        left["memory"] = max(0, allocatable.get("memory", 0) + more)
        changed["pods"] = left["pods"] = settings.max_pods * UNIT
    if (gib := _disk_gib(capacity, settings)) is not None:
        changed["ephemeral-storage"], left["ephemeral-storage"] = ephemeral_storage(gib)
    return changed, left


def _disk_gib(capacity: Mapping[str, int], settings: NodeClassSpec) -> int | None:
    """The size of the OS disk in GiB where the settings determine it; None: as the size has it.

    Of an ephemeral disk without a size only the least is known where the size has a managed one.
    """
    if settings.os_disk_size_gb or not settings.os_disk_type:
        return settings.os_disk_size_gb or None
    managed = managed_disk_gib(capacity.get("cpu", 0) // UNIT)
    if settings.os_disk_type == "Managed":
        return managed
    is_managed = capacity.get("ephemeral-storage") == ephemeral_storage(managed)[0]
    return DISK_GIB if is_managed else None
