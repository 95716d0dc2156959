"""VM sizes: what a kubelet and a device plugin find on the machine.

All GPU sizes that AKS supports are listed; other sizes are CPU machines. Independent of the controller's table.

Source: docs/references/agent-pools.md#gpu-sizes.
"""

import re
from dataclasses import dataclass

NVIDIA = "nvidia"
AMD = "amd"
PREFIX = "Standard_"
SLICES = {"MIG1g": 7, "MIG2g": 3, "MIG3g": 2, "MIG4g": 1, "MIG7g": 1}


@dataclass(frozen=True)
class Size:
    """Whole GPUs, vCPUs and GiB of memory of one machine. `fraction`: its GPU may be a part of one."""

    gpus: int = 0
    vcpus: int = 4
    memory_gib: int = 16
    vendor: str = ""
    fraction: bool = False


_NVIDIA = {
    "NC4as_T4_v3": (1, 4, 28),
    "NC8as_T4_v3": (1, 8, 56),
    "NC16as_T4_v3": (1, 16, 110),
    "NC64as_T4_v3": (4, 64, 440),
    "NC24ads_A100_v4": (1, 24, 220),
    "NC48ads_A100_v4": (2, 48, 440),
    "NC96ads_A100_v4": (4, 96, 880),
    "NC40ads_H100_v5": (1, 40, 320),
    "NC80adis_H100_v5": (2, 80, 640),
    "NCC40ads_H100_v5": (1, 40, 320),
    "ND96asr_v4": (8, 96, 900),
    "ND96amsr_A100_v4": (8, 96, 1900),
    "ND96isr_H100_v5": (8, 96, 1900),
    "ND96isr_H200_v5": (8, 96, 1850),
    "ND128isr_NDR_GB200_v6": (4, 128, 900),
    "ND128isr_GB300_v6": (4, 128, 864),
    "ND40rs_v2": (8, 40, 672),
    "NV6ads_A10_v5": (1, 6, 55),
    "NV12ads_A10_v5": (1, 12, 110),
    "NV18ads_A10_v5": (1, 18, 220),
    "NV36ads_A10_v5": (1, 36, 440),
    "NV36adms_A10_v5": (1, 36, 880),
    "NV72ads_A10_v5": (2, 72, 880),
    "NC8ads_A10_v4": (1, 8, 100),
    "NC16ads_A10_v4": (1, 16, 200),
    "NC32ads_A10_v4": (2, 32, 400),
    "NC144ds_xl_RTXPRO6000BSE_v6": (1, 144, 516),
    "NC288ds_xl_RTXPRO6000BSE_v6": (2, 288, 1032),
    "NC288lds_xl_RTXPRO6000BSE_v6": (2, 288, 516),
}
_RTX_FRACTIONS = {
    "NC24lds_xl_RTXPRO6000BSE_v6": (24, 72),
    "NC36lds_xl_RTXPRO6000BSE_v6": (36, 72),
    "NC36ds_xl_RTXPRO6000BSE_v6": (36, 132),
    "NC72lds_xl_RTXPRO6000BSE_v6": (72, 132),
    "NC72ds_xl_RTXPRO6000BSE_v6": (72, 264),
    "NC144lds_xl_RTXPRO6000BSE_v6": (144, 264),
}
_AMD = {
    "ND96isr_MI300X_v5": (8, 96, 1850),
    "ND96is_MI300X_v5": (8, 96, 1850),
    "NV24ads_V710_v5": (1, 24, 128),
    "NV28adms_V710_v5": (1, 28, 160),
    "NG32ads_V620_v1": (1, 32, 64),
    "NG32adms_V620_v1": (1, 32, 176),
}
_TABLE = {
    name.lower(): Size(gpus, vcpus, memory, vendor)
    for vendor, rows in ((NVIDIA, _NVIDIA), (AMD, _AMD))
    for name, (gpus, vcpus, memory) in rows.items()
}
_TABLE |= {name.lower(): Size(1, *row, NVIDIA, fraction=True) for name, row in _RTX_FRACTIONS.items()}
_CPU = re.compile(r"Standard_[A-FHLM]\w*", re.IGNORECASE)


def find(vm_size: str) -> Size | None:
    """The properties of a size; None for unknown N-series sizes and invalid names."""
    if vm_size.lower().startswith(PREFIX.lower()):
        known = _TABLE.get(vm_size[len(PREFIX) :].lower())
        if known is not None:
            return known
    if not _CPU.fullmatch(vm_size):
        return None
    digits = re.search(r"\d+", vm_size)
    vcpus = int(digits.group()) if digits else 2
    return Size(vcpus=vcpus, memory_gib=4 * vcpus)


def names() -> tuple[str, ...]:
    """The full names of all GPU sizes."""
    return tuple(f"{PREFIX}{name}" for rows in (_NVIDIA, _AMD) for name in rows)


def advertised(size: Size, instance_profile: str, fraction_gpus: int = 1) -> int:
    """The number of devices; MIG with the `single` strategy multiplies whole GPUs."""
    return (fraction_gpus if size.fraction else size.gpus) * SLICES.get(instance_profile, 1)
