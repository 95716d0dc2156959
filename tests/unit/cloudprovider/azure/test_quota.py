"""Which quotas an offering needs, and whether enough is left."""

import pytest

from cloudprovider.azure.instance_types import _INSTANCE_TYPES
from cloudprovider.azure.quota import family_of, quota_name, quota_of, vcpus_of
from cloudprovider.interface import SPOT, Offering, ResourceSku, Usage

FAMILY = quota_name("StandardNCADSA100v4Family")
A100 = Offering(size="Standard_NC24ads_A100_v4")


def usages(**left: int) -> dict[str, Usage]:
    return {name: Usage(limit=100, used=100 - cores) for name, cores in left.items()}


@pytest.mark.parametrize(
    ("offering", "left", "scope", "sufficient"),
    [
        (A100, {FAMILY: 24, "cores": 24}, "size", True),
        (A100, {FAMILY: 23, "cores": 90}, "size", False),
        (A100, {FAMILY: 90, "cores": 23}, "region", False),
        (A100, {"cores": 23}, "region", False),
        (
            Offering(size=A100.size, capacity_type=SPOT),
            {FAMILY: 0, "cores": 0, "lowprioritycores": 24},
            "priority",
            True,
        ),
        (Offering(size=A100.size, capacity_type=SPOT), {"lowprioritycores": 23}, "priority", False),
        (Offering(size="Standard_NC4as_T4_v3"), {"standardncasv3_t4family": 3}, "size", False),
        (Offering(size="Standard_D8s_v5"), {"cores": 7}, "region", False),
    ],
)
def test_the_quota_of_which_least_is_left_decides(
    offering: Offering, left: dict[str, int], scope: str, sufficient: bool
) -> None:
    """On demand: the family and the region; spot: the spot vCPUs."""
    quota = quota_of(usages(**left), offering, "westeurope")
    assert quota is not None
    assert (quota.failure.scope, quota.sufficient) == (scope, sufficient)
    assert (quota.failure.reason, quota.failure.kind) == ("QuotaExceeded", "no_capacity")
    assert f"needed {quota.needed}" in quota.failure.message
    assert quota.failure.message.endswith("az vm list-usage -l westeurope -o table")


T4 = Offering(size="Standard_NC4as_T4_v3")
SHORT = "StandardNCADSA100v4Family cores quota in westeurope: limit 100, used 77, needed 24"
LARGER, SPOT_A100 = Offering(size="Standard_NC48ads_A100_v4"), Offering(size=A100.size, capacity_type=SPOT)


@pytest.mark.parametrize(
    ("offering", "left", "requested", "expected"),
    [
        (A100, {FAMILY: 24}, [], ""),
        (A100, {FAMILY: 23}, [], SHORT),
        (A100, {FAMILY: 72}, [LARGER], ""),
        (
            A100,
            {FAMILY: 71},
            [LARGER],
            "StandardNCADSA100v4Family cores quota in westeurope: limit 100, used 77, needed 24",
        ),
        (A100, {FAMILY: 24}, [SPOT_A100, T4], ""),
        (
            A100,
            {"cores": 24},
            [Offering(size="Standard_NC4as_T4_v3")],
            SHORT.replace("StandardNCADSA100v4Family", "Total Regional").replace("77", "80"),
        ),
        (
            SPOT_A100,
            {"lowprioritycores": 24},
            [SPOT_A100],
            SHORT.replace("StandardNCADSA100v4Family", "LowPriority").replace("77", "100"),
        ),
        (A100, {"another": 0}, [], ""),
        (Offering(size="Standard_X"), {"cores": 0}, [], ""),
    ],
)
def test_machines_requested_since_the_reading_count(
    offering: Offering, left: dict[str, int], requested: list[Offering], expected: str
) -> None:
    """In the quotas that they need."""
    found = quota_of(usages(**left), offering, "westeurope", requested=requested)
    assert (found.text if found is not None and not found.sufficient else "") == expected


def test_the_family_from_the_list_of_sizes() -> None:
    """It takes the place of the table's, which lacks the families of CPU sizes."""
    cpu, left = Offering(size="Standard_D8s_v5"), usages(standarddsv5family=7, cores=100)
    region = quota_of(left, cpu, "westeurope")
    assert region is not None
    assert region.sufficient
    sku = ResourceSku(name=cpu.size, family="standardDSv5Family", vcpus=8)
    found = quota_of(left, cpu, "westeurope", skus={"standard_d8s_v5": sku})
    assert found is not None
    assert found.text == "standardDSv5Family cores quota in westeurope: limit 100, used 93, needed 8"
    assert not found.sufficient


@pytest.mark.parametrize("offering", [A100, Offering(size="Standard_D8s_v5"), Offering(size="Standard_X")])
def test_a_quota_that_is_not_listed_is_not_checked(offering: Offering) -> None:
    """Without data an offering is tried."""
    assert quota_of(usages(another=0), offering, "westeurope") is None


def test_the_vcpus_of_every_known_size_are_in_its_name() -> None:
    """The simulator's own table, from the pages of the sizes, agrees."""
    from provisioner.simulator.azure import sizes

    for known in _INSTANCE_TYPES:
        size = sizes.find(known.name)
        if size is not None:
            assert vcpus_of(known.name) == size.vcpus, known.name


def test_the_families_of_the_known_sizes() -> None:
    """All but the RTX PRO sizes have one; the case of a size does not matter."""
    without = [known.name for known in _INSTANCE_TYPES if not family_of(known.name)]
    assert [name for name in without if "RTXPRO6000" not in name] == []
    assert family_of("STANDARD_NC24ADS_A100_V4") == "StandardNCADSA100v4Family"
