"""VM sizes with GPUs: number of GPUs, extended resource, model and memory.

Sizes with a fraction of a GPU and sizes without a documented count are left out: Initialized does not wait for their
GPUs, and an Event of the claim states that.

Source: docs/references/agent-pools.md#gpu-sizes.
"""

import re
from collections.abc import Mapping

import msgspec

from cloudprovider.interface import NO_LABELS, Gpus
from provisioner.api.nodeclass import MIG_PROFILES
from provisioner.vendors import BY_NAME

AMD64, ARM64 = "amd64", "arm64"


class InstanceType(msgspec.Struct, frozen=True):
    """A VM size. `vendor`: by its name. `memory_gb` is the memory of all GPUs, 0 if it is not documented."""

    name: str
    vendor: str
    gpus: int
    model: str
    memory_gb: int = 0
    arch: str = AMD64

    @property
    def resource(self) -> str:
        """The extended resource of the device plugin."""
        return BY_NAME[self.vendor].resource

    @property
    def slices(self) -> Mapping[str, str]:
        """The MIG profiles of AKS that the size supports, each with the name of a slice; empty without MIG.

        Source: docs/references/agent-pools.md#mig-slices.
        """
        return _SLICES.get(self.model, NO_LABELS)


_INSTANCE_TYPES = (
    InstanceType("Standard_NC4as_T4_v3", "nvidia", 1, "T4", 16),
    InstanceType("Standard_NC8as_T4_v3", "nvidia", 1, "T4", 16),
    InstanceType("Standard_NC16as_T4_v3", "nvidia", 1, "T4", 16),
    InstanceType("Standard_NC64as_T4_v3", "nvidia", 4, "T4", 64),
    InstanceType("Standard_NC24ads_A100_v4", "nvidia", 1, "A100 80", 80),
    InstanceType("Standard_NC48ads_A100_v4", "nvidia", 2, "A100 80", 160),
    InstanceType("Standard_NC96ads_A100_v4", "nvidia", 4, "A100 80", 320),
    InstanceType("Standard_NC40ads_H100_v5", "nvidia", 1, "H100 NVL 94", 94),
    InstanceType("Standard_NC80adis_H100_v5", "nvidia", 2, "H100 NVL 94", 188),
    InstanceType("Standard_NCC40ads_H100_v5", "nvidia", 1, "H100 94", 94),
    InstanceType("Standard_ND96asr_v4", "nvidia", 8, "A100 40", 320),
    InstanceType("Standard_ND96amsr_A100_v4", "nvidia", 8, "A100 80", 640),
    InstanceType("Standard_ND96isr_H100_v5", "nvidia", 8, "H100 80", 640),
    InstanceType("Standard_ND96isr_H200_v5", "nvidia", 8, "H200 141", 1128),
    InstanceType("Standard_ND128isr_NDR_GB200_v6", "nvidia", 4, "GB200", 768, ARM64),
    InstanceType("Standard_ND128isr_GB300_v6", "nvidia", 4, "GB300", 1152, ARM64),
    InstanceType("Standard_ND40rs_v2", "nvidia", 8, "V100 32", 256),
    InstanceType("Standard_NV36ads_A10_v5", "nvidia", 1, "A10", 24),
    InstanceType("Standard_NV36adms_A10_v5", "nvidia", 1, "A10", 24),
    InstanceType("Standard_NV72ads_A10_v5", "nvidia", 2, "A10", 48),
    InstanceType("Standard_NC288lds_xl_RTXPRO6000BSE_v6", "nvidia", 2, "RTX PRO 6000 BSE"),
    InstanceType("Standard_NC288ds_xl_RTXPRO6000BSE_v6", "nvidia", 2, "RTX PRO 6000 BSE"),
    InstanceType("Standard_ND96isr_MI300X_v5", "amd", 8, "MI300X", 1535),
    InstanceType("Standard_ND96is_MI300X_v5", "amd", 8, "MI300X"),
    InstanceType("Standard_NV24ads_V710_v5", "amd", 1, "V710", 24),
    InstanceType("Standard_NV28adms_V710_v5", "amd", 1, "V710", 24),
    InstanceType("Standard_NG32ads_V620_v1", "amd", 1, "V620", 32),
    InstanceType("Standard_NG32adms_V620_v1", "amd", 1, "V620", 32),
)


def _slices(*names: str) -> Mapping[str, str]:
    return dict(zip(MIG_PROFILES, names, strict=True))


# The slices into which AKS partitions a GPU, by the model in the table above; other models have none.
_SLICES = {
    "A100 40": _slices("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    "A100 80": _slices("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    "H100 80": _slices("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    "H100 94": _slices("1g.12gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    "H100 NVL 94": _slices("1g.12gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    "H200 141": _slices("1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
}
_ARM = re.compile(r"(standard|basic)_[a-z]+\d+(-\d+)?[a-o]*p")
_BY_NAME = {sku.name.lower(): sku for sku in _INSTANCE_TYPES}


def lookup(size: str) -> InstanceType | None:
    """The data of a size; the case of the name is ignored (AKS returns that of the PUT)."""
    return _BY_NAME.get(size.lower())


def gpu_sizes() -> tuple[InstanceType, ...]:
    """All sizes of the table."""
    return _INSTANCE_TYPES


def arch_of(size: str) -> str:
    """The CPU architecture of a size. In a name, the letter p after the vCPUs stands for Arm.

    Source: https://learn.microsoft.com/en-us/azure/virtual-machines/vm-naming-conventions.
    """
    sku = lookup(size)
    if sku is not None:
        return sku.arch
    return ARM64 if _ARM.match(size.lower()) is not None else AMD64


def is_gpu_size(size: str) -> bool:
    """Whether the size is of the N family; all of these have GPUs."""
    return size.lower().startswith("standard_n")


def gpus_of(size: str) -> Gpus:
    """The GPUs of a size; count 0 for a size without GPUs, `known` False for a GPU size without data."""
    sku = lookup(size)
    if sku is not None:
        return Gpus(resource=sku.resource, model=sku.model, count=sku.gpus, slices=sku.slices)
    return Gpus(known=not is_gpu_size(size))
