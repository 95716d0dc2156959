"""The labels and taints of a Node of each VM size that are known before the Node exists.

Pods can select a size, a GPU model or a number of GPUs by them. The agent pools of a NodePool's claims carry those that
AKS accepts from users, so that the Node bears them from its first moment; AKS sets the others itself.
The product of a GPU is the value that GPU Feature Discovery reports for the model.

What all machines of a cluster have in common is read from its Nodes: labels of AKS that depend on the cluster, such as
those of its network, are on every Node of an agent pool; so are those of a new machine. The zone label of a Node
outside all zones is taken from the newest one.

Source: https://learn.microsoft.com/en-us/azure/aks/node-auto-provisioning-node-pools (sku labels),
https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md,
docs/references/nodes.md#labels-of-aks, docs/references/nodes.md#zones, docs/references/nodes.md#taints.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest

from cloudprovider.cloud import ClusterFacts
from cloudprovider.interface import SPOT, CapacityType
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclass import NodeClassSpec
from provisioner.api.restricted_labels import is_excluded, refused_key
from provisioner.api.time import EARLIEST
from provisioner.api.zones import REGIONAL, is_regional
from provisioner.vendors import VENDORS, Vendor

from .gpu_products import product
from .pricing import Size

DOMAIN = "karpenter.azure.com"
AKS = "kubernetes.azure.com"
ACCELERATOR = "accelerator"
GPU_NAME = f"{DOMAIN}/sku-gpu-name"
PLACEMENT_SCOPE = f"{DOMAIN}/placement-scope"
SPOT_TAINT = Taint(key=labels.AKS_SPOT, value="spot", effect="NoSchedule")
DEFAULTS = NodeClassSpec()

CLUSTER = f"{AKS}/cluster"
# Those outside AKS's domain that it sets, or set in the past.
OTHERS = frozenset({"kubernetes.io/role", "node-role.kubernetes.io/agent", "storageprofile", "storagetier"})
# Labels that AKS gives every Node of an agent pool, with values that are not known before the Node exists.
UNKNOWN = (
    "agentpool",
    f"{AKS}/agentpool",
    CLUSTER,
    f"{AKS}/node-image-version",
    f"{AKS}/os-sku-effective",
    f"{AKS}/storageprofile",
    f"{AKS}/storagetier",
)
SUBNET = f"{AKS}/network-subnet"
_NETWORKS = ("network-name", "network-resourcegroup", "network-subscription", "nodenetwork-vnetguid")
OF_SUBNET = frozenset({SUBNET, *(f"{AKS}/{one}" for one in _NETWORKS)})
# Whether AKS writes the version into this label is not documented.
_OS_SKU = {"Ubuntu": "Ubuntu", "AzureLinux": "AzureLinux"}
_DISKS = {"Managed": "managed", "Ephemeral": "ephemeral"}
_NAME = re.compile(r"Standard_([A-Z]+)(\d+)(?:-\d+)?([a-z]*)_(?:.*_)?v(\d+)")
# The newest Nodes suffice: labels of AKS change with its releases, and the cost stays bounded.
NODES_READ = 100
# The label of a Node whose machine was created with a node class of ours.
OF_CLASS = f"{labels.OWN_DOMAIN}/{labels.NODECLASS_KIND.lower()}"


def machine_labels(size: Size) -> dict[str, str]:
    """All labels of a Node of this size that depend on the size only; "" for a label that it does not bear."""
    series = _NAME.fullmatch(size.name)
    return {
        labels.INSTANCE_TYPE: size.name,
        labels.ARCH: size.arch,
        labels.OS: "linux",
        f"{DOMAIN}/sku-name": size.name,
        f"{DOMAIN}/sku-family": size.name.removeprefix("Standard_")[0],
        f"{DOMAIN}/sku-series": f"{series[1]}{series[3]}_v{series[4]}" if series else "",
        f"{DOMAIN}/sku-version": series[4] if series else "",
        f"{DOMAIN}/sku-cpu": str(size.vcpus),
        f"{DOMAIN}/sku-memory": str(size.memory_gib * 1024),
        f"{DOMAIN}/sku-gpu-count": str(size.gpus),
        GPU_NAME: size.gpu_model.split(" ")[0] if size.gpus else "",
        f"{DOMAIN}/sku-gpu-manufacturer": size.gpu_vendor if size.gpus else "",
        # In the name of a size, the letter s among the features stands for premium storage.
        f"{DOMAIN}/sku-storage-premium-capable": str("s" in series[3]).lower() if series else "",
        f"{AKS}/sku-cpu": str(size.vcpus),
        f"{AKS}/sku-memory": str(size.memory_gib * 1024),
        f"{AKS}/accelerator": size.gpu_vendor,
        ACCELERATOR: size.gpu_vendor,
        **{one.product: _product(size, one) for one in VENDORS if one.product},
    }


def pool_machine_labels(size: Size) -> dict[str, str]:
    """Those that an agent pool carries: AKS refuses keys of its own, and sets what is a fact of the machine."""
    found = machine_labels(size)
    return {key: value for key, value in found.items() if value and not is_excluded(key) and refused_key(key) is None}


def aks_labels(settings: NodeClassSpec = DEFAULTS) -> dict[str, str | None]:
    """The labels that AKS gives a Node of any size of a user pool with these settings; None for an unknown value."""
    disk = _DISKS.get(settings.os_disk_type)
    return {
        **dict.fromkeys(UNKNOWN),
        **({f"{AKS}/storageprofile": disk} if disk else {}),
        f"{AKS}/mode": "user",
        f"{AKS}/role": "agent",
        f"{AKS}/managedby": "aks",
        f"{AKS}/nodepool-type": "VirtualMachineScaleSets",
        f"{AKS}/os-sku": _OS_SKU.get(settings.image_family),
        f"{AKS}/os-sku-requested": settings.image_family,
        f"{AKS}/fips_enabled": "",
    }


def labels_of_node_class(known: Collection[str], settings: NodeClassSpec) -> dict[str, str | None]:
    """Those of the labels that a node class with these settings changes; "" for one that the Node does not bear."""
    own = {key: value for key, value in aks_labels(settings).items() if value != _DEFAULT_LABELS[key]}
    return {key: value for key, value in own.items() if key in known} | of_subnet(known, settings.vnet_subnet_id)


def of_subnet(keys: Iterable[str], subnet: str) -> dict[str, str | None]:
    """Those of the labels that have other values in a pool with this subnet; None for an unknown value.

    `subnet`: its ID, "" for that of the cluster's Nodes.
    """
    name = subnet.rpartition("/")[2]
    return {key: name if key == SUBNET else None for key in keys if subnet and key in OF_SUBNET}


def of_cluster(key: str) -> bool:
    """Whether AKS sets the label on Nodes of agent pools for a reason that may be the cluster's."""
    return key == CLUSTER or ((key.startswith(f"{AKS}/") or key in OTHERS) and key not in _OF_POOL)


def offering_labels(capacity_type: CapacityType, *, regional: bool) -> Mapping[str, str]:
    """The labels of a Node that depend on its offering, besides zone and capacity type; "" for one that it lacks."""
    spot = capacity_type == SPOT
    return {
        labels.AKS_SPOT: "spot" if spot else "",
        f"{AKS}/priority": "spot" if spot else "regular",
        PLACEMENT_SCOPE: "regional" if regional else "zonal",
    }


def offering_taints(capacity_type: CapacityType) -> tuple[Taint, ...]:
    """The taints that AKS gives a Node of this capacity type."""
    return (SPOT_TAINT,) if capacity_type == SPOT else ()


_DEFAULT_LABELS = aks_labels()
# The labels that depend on the pool, its size or its offering.
_OF_POOL = frozenset(
    {
        *_DEFAULT_LABELS,
        *offering_labels(SPOT, regional=True),
        f"{AKS}/sku-cpu",
        f"{AKS}/sku-memory",
        f"{AKS}/accelerator",
    }
)


def _product(size: Size, vendor: Vendor) -> str:
    """The value of GPU feature discovery: dashes for blanks."""
    return product(size.name, size.gpu_model).replace(" ", "-") if size.gpu_vendor == vendor.name else ""


def cluster_facts(nodes: Iterable[Node], max_pods: int) -> ClusterFacts:
    """The facts of a cluster with these Nodes. `max_pods`: of its agent pools that do not state it."""
    of_pools = [node for node in nodes if _is_of_pool(node.metadata.labels)]
    newest = _newest(of_pools)
    # A node class may have a subnet of its own; a pool without one is in that of the other pools.
    others = _newest(node for node in of_pools if OF_CLASS not in node.metadata.labels)
    common = {key: value for key, value in _common_labels(newest).items() if key not in OF_SUBNET}
    common |= {key: value for key, value in _common_labels(others).items() if key in OF_SUBNET}
    # The cloud node manager writes region and zone after the Node has registered.
    placed = (node.metadata.labels for node in newest if labels.REGION in node.metadata.labels)
    outside = [zone for known in placed if is_regional(zone := known.get(labels.ZONE, ""))]
    return ClusterFacts(max_pods=max_pods, regional_zone=outside[0] if outside else REGIONAL, labels=common)


def _newest(nodes: Iterable[Node]) -> list[Node]:
    return nlargest(NODES_READ, nodes, key=lambda node: (node.metadata.creation_timestamp or EARLIEST, node.name))


def _is_of_pool(known: Mapping[str, str]) -> bool:
    """Whether a Linux Node of an agent pool has these labels."""
    return labels.AGENTPOOL in known and known.get(labels.OS) == "linux"


def _common_labels(nodes: Iterable[Node]) -> dict[str, str | None]:
    found: dict[str, str | None] | None = None
    for node in nodes:
        known = node.metadata.labels
        if found is None:
            found = {key: value for key, value in known.items() if of_cluster(key)}
        for key in [key for key in found if key not in known]:
            del found[key]
        found |= {key: None for key, value in found.items() if known[key] != value}
    return found or {}
