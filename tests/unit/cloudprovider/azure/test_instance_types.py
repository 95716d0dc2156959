"""The table of GPU sizes."""

import re

import pytest

from cloudprovider.azure.instance_types import _INSTANCE_TYPES, is_gpu_size, lookup
from provisioner.vendors import BY_NAME

# By vendor, the counts of Azure's series pages (docs/references/agent-pools.md#gpu-sizes) that the presets of KAITO
# use.
WHOLE = [
    ("Standard_NC4as_T4_v3", 1, "nvidia.com/gpu"),
    ("Standard_NC64as_T4_v3", 4, "nvidia.com/gpu"),
    ("Standard_NC24ads_A100_v4", 1, "nvidia.com/gpu"),
    ("Standard_NC96ads_A100_v4", 4, "nvidia.com/gpu"),
    ("Standard_NC80adis_H100_v5", 2, "nvidia.com/gpu"),
    ("Standard_ND96asr_v4", 8, "nvidia.com/gpu"),
    ("Standard_ND96isr_H200_v5", 8, "nvidia.com/gpu"),
    ("Standard_NV36ads_A10_v5", 1, "nvidia.com/gpu"),
    ("Standard_NV72ads_A10_v5", 2, "nvidia.com/gpu"),
    ("Standard_ND96isr_MI300X_v5", 8, "amd.com/gpu"),
]
# Fractions of a GPU, retired sizes, and sizes without a documented count.
UNKNOWN = [
    "Standard_NV6ads_A10_v5",
    "Standard_NV18ads_A10_v5",
    "Standard_NV4ads_V710_v5",
    "Standard_NC8ads_A10_v4",
    "Standard_NC24rs_v3",
    "Standard_ND96asr_A100_v4",
    "Standard_D4s_v5",
    "",
]


@pytest.mark.parametrize(("size", "gpus", "resource"), WHOLE)
def test_whole_gpus_are_counted(size: str, gpus: int, resource: str) -> None:
    """Count and resource of a size; the case of its name is ignored."""
    for spelling in (size, size.lower(), size.upper()):
        sku = lookup(spelling)
        assert sku is not None
        assert (sku.gpus, sku.resource, sku.name) == (gpus, resource, size)


@pytest.mark.parametrize("size", UNKNOWN)
def test_sizes_without_data(size: str) -> None:
    """Without a count Initialized does not wait for GPUs; with a wrong one it would wait forever."""
    assert lookup(size) is None


def test_every_row_is_valid() -> None:
    """Names are valid and unique regardless of case, counts are positive."""
    assert len({sku.name.lower() for sku in _INSTANCE_TYPES}) == len(_INSTANCE_TYPES)
    for sku in _INSTANCE_TYPES:
        assert re.fullmatch(r"Standard_N[CDGV][A-Za-z0-9_]+_v\d", sku.name)
        assert is_gpu_size(sku.name)
        assert 1 <= sku.gpus <= 8
        assert sku.memory_gb >= 0
        assert sku.vendor in BY_NAME


@pytest.mark.parametrize(
    ("size", "gpu"),
    [
        ("Standard_NC4as_T4_v3", True),
        ("standard_nv6ads_a10_v5", True),
        ("Standard_D4s_v5", False),
        ("Standard_E4s_v5", False),
        ("", False),
    ],
)
def test_gpu_sizes_by_family(size: str, gpu: bool) -> None:
    """Sizes that are not in the table are labelled `gpu` too (K16)."""
    assert is_gpu_size(size) is gpu
