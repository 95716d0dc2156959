"""What a Node offers of its size, by the published formulas."""

from typing import Any

import pytest

from cloudprovider.azure.node_resources import (
    default_disk_gib,
    default_max_pods,
    ephemeral_storage,
    managed_disk_gib,
    reserved,
)
from cloudprovider.interface import ResourceSku


@pytest.mark.parametrize(
    ("vcpus", "gib", "pods", "milli", "mib"),
    [
        (1, 2, 110, 60, 765),
        (4, 28, 110, 140, 4500),
        (96, 1900, 110, 1060, 148270),
        (4, 28, 30, 140, 2900),
        (4, 28, 250, 140, 7300),
        (4, 16, 250, 140, 5424),
    ],
)
def test_reserved_resources(vcpus: int, gib: int, pods: int, milli: int, mib: int) -> None:
    """The kubelet reserves 6 % of the first core and less of the others, and memory by pods, at most a quarter."""
    assert reserved(vcpus, gib, pods) == {"cpu": milli, "memory": 1000 * 2**20 * mib}


@pytest.mark.parametrize(
    ("plugin", "mode", "pods"),
    [
        ("azure", "overlay", 250),
        ("azure", "Overlay", 250),
        ("azure", "", 30),
        ("kubenet", "", 110),
        ("none", "", 250),
        ("", "", 110),
    ],
)
def test_pods_of_a_node(plugin: str, mode: str, pods: int) -> None:
    """A pool that does not state maxPods gets what AKS sets for the network plugin."""
    assert default_max_pods(plugin, mode) == pods


def test_ephemeral_storage() -> None:
    """The prediction is not more than a Node with a disk of 100 GiB showed, and less by at most 2 %."""
    capacity, allocatable = ephemeral_storage(100)
    assert 0.98 < capacity / (101445900 * 1024 * 1000) <= 1
    assert 0.98 < allocatable / 93492541286_000 <= 1


@pytest.mark.parametrize(("vcpus", "gib"), [(4, 128), (7, 128), (8, 256), (15, 256), (16, 512), (63, 512), (64, 1024)])
def test_managed_disks(vcpus: int, gib: int) -> None:
    """The table of AKS."""
    assert managed_disk_gib(vcpus) == gib


@pytest.mark.parametrize(
    ("local", "gib"),
    [
        ({"ephemeral": True, "temp_gib": 176}, 176),
        ({"ephemeral": True, "temp_gib": 64}, 512),
        ({"ephemeral": False, "temp_gib": 176}, 512),
        ({"ephemeral": True, "temp_gib": 64, "nvme_gib": 894}, 128),
        ({"ephemeral": True, "cache_gib": 200}, 128),
        ({"ephemeral": True, "cache_gib": 128}, 128),
        ({"ephemeral": True, "cache_gib": 127}, 512),
        ({"temp_gib": 176}, 128),
        (None, 128),
    ],
)
def test_the_default_disk(local: dict[str, Any] | None, gib: int) -> None:
    """Of a size with 24 vCPUs: the whole temporary disk, or a managed one; the least where it is not known which."""
    sku = None if local is None else ResourceSku(name="s", family="f", vcpus=24, **local)
    assert default_disk_gib(24, sku) == gib
