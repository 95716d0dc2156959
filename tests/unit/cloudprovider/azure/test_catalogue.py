"""The offerings of a region, from the built-in tables and from the list of the subscription."""

import pytest

from cloudprovider.azure import pricing
from cloudprovider.azure.catalogue import instance_types
from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.regions import WITHOUT_ZONES
from cloudprovider.cloud import InstanceType
from cloudprovider.interface import ResourceSku
from controllers.provisioning.instances import InstanceTypeCache

REGION, T4 = "eastus", "Standard_NC4as_T4_v3"

SKU = ResourceSku(name=T4, family="f", vcpus=4, zones=("1", "2", "3"), zones_restricted=("2",), spot=False)


def of_t4(found: tuple[InstanceType, ...]) -> InstanceType:
    (one,) = [one for one in found if one.name == T4]
    return one


def zones(found: InstanceType) -> list[str]:
    return [*dict.fromkeys(one.zone for one in found.offerings)]


@pytest.mark.parametrize(
    ("region", "expected"), [("eastus", ["0", "eastus-1", "eastus-2", "eastus-3"]), ("westus", ["0"])]
)
def test_zones_of_the_region(region: str, expected: list[str]) -> None:
    """Where the list of the subscription is not known."""
    assert zones(of_t4(instance_types(region))) == expected


def test_every_region_without_zones_has_prices() -> None:
    """A misspelled one would have zones."""
    assert set(pricing.regions()) >= WITHOUT_ZONES


def test_zones_of_the_size() -> None:
    """A restricted zone is left out; spot, which the size does not have, is not available."""
    found = of_t4(instance_types(REGION, skus={T4.lower(): SKU}))
    assert zones(found) == ["0", f"{REGION}-1", f"{REGION}-3"]
    assert {(one.capacity_type, one.available, one.cause) for one in found.offerings} == {
        ("on-demand", True, ""),
        ("spot", False, f"{T4} is not offered as spot"),
    }


def test_a_size_that_is_not_in_the_list() -> None:
    """It stays known, so that the Events of pods that select it state the cause."""
    found = of_t4(instance_types(REGION, skus={"other": SKU}))
    assert {(one.zone, one.cause) for one in found.offerings} == {("0", f"{T4} is not offered in {REGION}")}


def test_offerings_are_listed_again_only_after_a_change() -> None:
    """Of an obstacle, or of the list."""
    failed: set[str] = set()
    cache = InstanceTypeCache(AksCloud(), lambda: lambda one: "failed" if one.size in failed else "")
    first = cache.in_region(REGION)
    assert cache.in_region(REGION) is first
    failed.add(T4)
    second = cache.in_region(REGION)
    assert cache.in_region(REGION) is second is not first
    skus = {T4.lower(): SKU}
    third = cache.in_region(REGION, skus)
    assert cache.in_region(REGION, skus) is third is not second


@pytest.mark.parametrize("region", ["usgovvirginia", "usgovarizona", "chinanorth3", "chinaeast2"])
def test_regions_without_prices(region: str) -> None:
    """Every known size is offered there."""
    found = {one.name for one in instance_types(region)}
    assert {one.name for one in instance_types("eastus")} <= found


@pytest.mark.parametrize("size", ["Standard_ND128isr_GB300_v6", "Standard_NG32adms_V620_v1"])
def test_sizes_that_no_region_prices(size: str) -> None:
    """They are offered in every region, as the last ones."""
    assert size in {one.name for one in instance_types("westeurope")}


def test_a_size_that_only_other_regions_price() -> None:
    """It is offered if the list of the subscription has it."""
    region = next(
        one for one in pricing.regions() if T4 not in {size.name for size in pricing.sizes(pricing.list_prices(one))}
    )
    assert T4 not in {one.name for one in instance_types(region)}
    assert T4 in {one.name for one in instance_types(region, skus={T4.lower(): SKU})}
