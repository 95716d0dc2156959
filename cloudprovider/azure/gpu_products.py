"""Names and memory of GPU models, as NVIDIA's management library reports them to its DRA driver and to nvidia-smi.

They are not documented as a list: the names are those that GPU feature discovery turns into labels, the memory is what
nvidia-smi prints with current drivers. Models without a certain value are left out.

Source: docs/references/kubernetes.md#dynamic-resource-allocation,
https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md.
"""

from collections.abc import Mapping
from functools import cache

from cloudprovider.cloud import DeviceTemplate
from provisioner.vendors import BY_RESOURCE

from .instance_types import InstanceType, gpu_sizes

_MIB = 2**20
# A10 machines report a GRID profile that depends on the driver.
_PRODUCTS: Mapping[str, str] = {
    "T4": "Tesla T4",
    "A100 80": "NVIDIA A100 80GB PCIe",
    "H100 NVL 94": "NVIDIA H100 NVL",
    "H100 80": "NVIDIA H100 80GB HBM3",
    "H200 141": "NVIDIA H200",
    "GB200": "NVIDIA GB200",
    "GB300": "NVIDIA GB300",
}
# Machines of the ND series have the SXM form of the A100.
_SXM_PRODUCTS: Mapping[str, str] = {"A100 40": "NVIDIA A100-SXM4-40GB", "A100 80": "NVIDIA A100-SXM4-80GB"}
_MEMORY_MIB: Mapping[str, int] = {
    "T4": 15360,
    "A100 40": 40960,
    "A100 80": 81920,
    "H100 80": 81559,
    "H100 NVL 94": 95830,
    "H200 141": 143771,
}


def product(size: str, model: str) -> str:
    """The name of the model on this size; "" if it is not known."""
    if size.startswith("Standard_ND") and model in _SXM_PRODUCTS:
        return _SXM_PRODUCTS[model]
    return _PRODUCTS.get(model, "")


@cache
def device_templates() -> Mapping[str, DeviceTemplate]:
    """A GPU of each size, as its driver will publish it."""
    return {one.name: _template(one) for one in gpu_sizes()}


def _template(one: InstanceType) -> DeviceTemplate:
    vendor, mib = BY_RESOURCE[one.resource], _MEMORY_MIB.get(one.model)
    return DeviceTemplate(
        driver=vendor.driver,
        type=vendor.device_type,
        product=product(one.name, one.model) or None,
        memory=None if mib is None else mib * _MIB,
    )
