"""The labels of a Node of each VM size that are known before the Node exists.

Pods can select a size, a GPU model or a number of GPUs by them. The agent pools of a NodePool's claims carry those that
AKS accepts from users, so that the Node bears them from its first moment; AKS sets the others itself.
`nvidia.com/gpu.product` is the value that GPU Feature Discovery reports for the model.

Source: https://learn.microsoft.com/en-us/azure/aks/node-auto-provisioning-node-pools (sku labels),
https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md,
docs/references/agent-pools.md#labels-and-taints.
"""

import re
from collections.abc import Mapping

from provisioner.api import labels
from provisioner.api.restricted_labels import is_excluded, refused_key

from .pricing import Size

DOMAIN = "karpenter.azure.com"
ACCELERATOR = "accelerator"
GPU_PRODUCT = "nvidia.com/gpu.product"

# The name of the model in NVML, with dashes for blanks. A10 machines report a GRID profile that depends on the driver,
# and the others are not documented.
PRODUCTS: Mapping[str, str] = {
    "T4": "Tesla-T4",
    "A100 80": "NVIDIA-A100-80GB-PCIe",
    "H100 NVL 94": "NVIDIA-H100-NVL",
    "H100 80": "NVIDIA-H100-80GB-HBM3",
    "H200 141": "NVIDIA-H200",
    "GB200": "NVIDIA-GB200",
    "GB300": "NVIDIA-GB300",
}
# Machines of the ND series have the SXM form of the A100.
SXM_PRODUCTS: Mapping[str, str] = {"A100 40": "NVIDIA-A100-SXM4-40GB", "A100 80": "NVIDIA-A100-SXM4-80GB"}

_NAME = re.compile(r"Standard_([A-Z]+)(\d+)(?:-\d+)?([a-z]*)_(?:.*_)?v(\d+)")


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
        f"{DOMAIN}/sku-gpu-name": size.gpu_model.split(" ")[0] if size.gpus else "",
        f"{DOMAIN}/sku-gpu-manufacturer": size.gpu_vendor if size.gpus else "",
        ACCELERATOR: "nvidia" if size.gpu_vendor == "nvidia" else "",
        GPU_PRODUCT: _product(size),
    }


def pool_machine_labels(size: Size) -> dict[str, str]:
    """Those that an agent pool carries: AKS refuses keys of its own, and sets what is a fact of the machine."""
    found = machine_labels(size)
    return {key: value for key, value in found.items() if value and not is_excluded(key) and refused_key(key) is None}


def _product(size: Size) -> str:
    if size.gpu_vendor != "nvidia":
        return ""
    if size.name.startswith("Standard_ND") and size.gpu_model in SXM_PRODUCTS:
        return SXM_PRODUCTS[size.gpu_model]
    return PRODUCTS.get(size.gpu_model, "")
