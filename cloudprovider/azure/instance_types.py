"""GPU sizes as data: how many whole GPUs a machine of a size has, and under which resource they appear.

Only what is known for certain stands here. Sizes with a fraction of a GPU, and sizes whose count no source
states, are left out: they have no readiness gate, and the claim's event says so.

Source: docs/references/agent-pools.md#gpu-sizes.
"""

from typing import Literal

import msgspec

from cloudprovider.interface import Gpus

Vendor = Literal["nvidia", "amd"]

RESOURCES: dict[Vendor, str] = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}


class Sku(msgspec.Struct, frozen=True):
    """One size. `gpus` are whole devices; `memory_gb` is that of all GPUs together, 0 where no source states it."""

    name: str
    vendor: Vendor
    gpus: int
    model: str
    memory_gb: int = 0

    @property
    def resource(self) -> str:
        """The extended resource its device plugin advertises."""
        return RESOURCES[self.vendor]


_SKUS = (
    Sku("Standard_NC4as_T4_v3", "nvidia", 1, "T4", 16),
    Sku("Standard_NC8as_T4_v3", "nvidia", 1, "T4", 16),
    Sku("Standard_NC16as_T4_v3", "nvidia", 1, "T4", 16),
    Sku("Standard_NC64as_T4_v3", "nvidia", 4, "T4", 64),
    Sku("Standard_NC24ads_A100_v4", "nvidia", 1, "A100 80", 80),
    Sku("Standard_NC48ads_A100_v4", "nvidia", 2, "A100 80", 160),
    Sku("Standard_NC96ads_A100_v4", "nvidia", 4, "A100 80", 320),
    Sku("Standard_NC40ads_H100_v5", "nvidia", 1, "H100 NVL 94", 94),
    Sku("Standard_NC80adis_H100_v5", "nvidia", 2, "H100 NVL 94", 188),
    Sku("Standard_NCC40ads_H100_v5", "nvidia", 1, "H100 94", 94),
    Sku("Standard_ND96asr_v4", "nvidia", 8, "A100 40", 320),
    Sku("Standard_ND96amsr_A100_v4", "nvidia", 8, "A100 80", 640),
    Sku("Standard_ND96isr_H100_v5", "nvidia", 8, "H100 80", 640),
    Sku("Standard_ND96isr_H200_v5", "nvidia", 8, "H200 141", 1128),
    Sku("Standard_ND128isr_NDR_GB200_v6", "nvidia", 4, "GB200", 768),
    Sku("Standard_ND128isr_GB300_v6", "nvidia", 4, "GB300", 1152),
    Sku("Standard_ND40rs_v2", "nvidia", 8, "V100 32", 256),
    Sku("Standard_NV36ads_A10_v5", "nvidia", 1, "A10", 24),
    Sku("Standard_NV36adms_A10_v5", "nvidia", 1, "A10", 24),
    Sku("Standard_NV72ads_A10_v5", "nvidia", 2, "A10", 48),
    Sku("Standard_NC288lds_xl_RTXPRO6000BSE_v6", "nvidia", 2, "RTX PRO 6000 BSE"),
    Sku("Standard_NC288ds_xl_RTXPRO6000BSE_v6", "nvidia", 2, "RTX PRO 6000 BSE"),
    Sku("Standard_ND96isr_MI300X_v5", "amd", 8, "MI300X", 1535),
    Sku("Standard_ND96is_MI300X_v5", "amd", 8, "MI300X"),
    Sku("Standard_NV24ads_V710_v5", "amd", 1, "V710", 24),
    Sku("Standard_NV28adms_V710_v5", "amd", 1, "V710", 24),
    Sku("Standard_NG32ads_V620_v1", "amd", 1, "V620", 32),
    Sku("Standard_NG32adms_V620_v1", "amd", 1, "V620", 32),
)

_BY_NAME = {sku.name.lower(): sku for sku in _SKUS}


def lookup(size: str) -> Sku | None:
    """What is known of a size, whatever its casing (AKS echoes the caller's)."""
    return _BY_NAME.get(size.lower())


def is_gpu_size(size: str) -> bool:
    """Whether a size has GPUs by its name: all of the N family do."""
    return size.lower().startswith("standard_n")


def gpus_of(size: str) -> Gpus:
    """The GPUs of a size; count 0 for a size without GPUs, `known` False for a GPU size that is not listed above."""
    sku = lookup(size)
    if sku is not None:
        return Gpus(resource=sku.resource, count=sku.gpus)
    return Gpus(known=not is_gpu_size(size))
