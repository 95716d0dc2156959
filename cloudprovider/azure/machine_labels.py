"""The labels of a Node of each VM size that are known before the Node exists.

Pods can select a size, a GPU model or a number of GPUs by them. The agent pools of a NodePool's claims carry those that
AKS accepts from users, so that the Node bears them from its first moment; AKS sets the others itself.
`nvidia.com/gpu.product` is the value that GPU Feature Discovery reports for the model.

Source: https://learn.microsoft.com/en-us/azure/aks/node-auto-provisioning-node-pools (sku labels),
https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md,
docs/references/agent-pools.md#labels-and-taints.
"""

import re

from provisioner.api import labels
from provisioner.api.restricted_labels import is_excluded, refused_key

from .gpu_products import product
from .pricing import Size

DOMAIN = "karpenter.azure.com"
ACCELERATOR = "accelerator"
GPU_PRODUCT = "nvidia.com/gpu.product"

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
    """The value of GPU feature discovery: dashes for blanks."""
    return product(size.name, size.gpu_model).replace(" ", "-") if size.gpu_vendor == "nvidia" else ""
