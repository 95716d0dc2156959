"""The VM sizes of a location: restrictions, zones, spot, and pages with megabytes of other rows."""

import json
from typing import Any

import msgspec
import pytest

from cloudprovider.azure.skus import decode_page, excluded, to_sku, to_skus
from cloudprovider.interface import Offering, ResourceSku

A100, T4 = "Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3"


def row(**more: Any) -> dict[str, Any]:
    """A size in the format of Compute."""
    return {
        "resourceType": "virtualMachines",
        "name": "Standard_NC24ads_A100_v4",
        "family": "StandardNCADSA100v4Family",
        "locationInfo": [{"location": "westeurope", "zones": ["2", "1"], "zoneDetails": []}],
        "capabilities": [{"name": "MaxResourceVolumeMB", "value": "65536"}, {"name": "vCPUs", "value": "24"}],
        "restrictions": [],
        **more,
    }


def restricted(kind: str, *zones: str, location: str = "westeurope") -> dict[str, Any]:
    info = {"locations": [location], **({"zones": list(zones)} if zones else {})}
    return {"type": kind, "values": [location], "restrictionInfo": info, "reasonCode": "NotAvailableForSubscription"}


WELL = ResourceSku(
    name="Standard_NC24ads_A100_v4", family="StandardNCADSA100v4Family", vcpus=24, zones=("1", "2"), temp_gib=64
)


def test_a_size_without_restrictions() -> None:
    """Family, vCPUs, zones."""
    assert to_sku(row(), "westeurope") == WELL


def test_local_disks() -> None:
    """Of the temporary disk, the cache and NVMe; whether one can hold the OS disk, if the list states it."""
    values = {
        "EphemeralOSDiskSupported": "True",
        "MaxResourceVolumeMB": "180224",
        "CachedDiskBytes": "47244640256",
        "NvmeDiskSizeInMiB": "915527",
    }
    found = to_sku(row(capabilities=[{"name": name, "value": value} for name, value in values.items()]), "westeurope")
    assert (found.ephemeral, found.temp_gib, found.cache_gib, found.nvme_gib) == (True, 176, 44, 894)
    refused = [{"name": "EphemeralOSDiskSupported", "value": "False"}]
    assert to_sku(row(capabilities=refused), "westeurope").ephemeral is False


def test_restrictions_of_a_size() -> None:
    """Of the whole location or of zones; those of other locations are ignored."""
    found = to_sku(
        row(restrictions=[restricted("Zone", "3", "1"), restricted("Location", location="northeurope")]), "WestEurope"
    )
    assert (found.restricted, found.zones_restricted) == ("", ("1", "3"))
    assert to_sku(row(restrictions=[restricted("Location")]), "westeurope").restricted == "NotAvailableForSubscription"


JUNK: list[dict[str, Any]] = [
    {"restrictions": None, "capabilities": None, "locationInfo": None, "family": None},
    {"restrictions": [None, {"type": "Zone"}], "capabilities": ["vCPUs", {"name": "vCPUs", "value": None}]},
    {"restrictions": "x", "capabilities": [{"name": "vCPUs", "value": "many"}], "locationInfo": [{"zones": "1"}]},
]


@pytest.mark.parametrize("more", JUNK, ids=["nulls", "nothing in it", "other types"])
def test_a_size_without_members(more: dict[str, Any]) -> None:
    """No vCPUs, no zones, no restriction, and no error."""
    found = to_sku(row(**more), "westeurope")
    assert (found.vcpus if "capabilities" in more else 0, found.restricted) == (0, "")


def test_a_page_keeps_the_wanted_sizes_only() -> None:
    """Disks, which the list has too, and other sizes are left out; names differ in case."""
    disk = {"resourceType": "disks", "name": A100}
    page = {"value": [disk, row(), row(name=T4), row(name="Standard_B1s")], "nextLink": "https://arm/next"}
    found = decode_page(lambda name: name.casefold() == A100.casefold())(json.dumps(page).encode())
    assert ([one["name"] for one in found.items], found.next_link) == ([A100], "https://arm/next")
    assert to_skus(found.items, "westeurope") == {A100.casefold(): WELL}


@pytest.mark.parametrize("page", [{}, {"value": None}, {"value": [1]}, {"value": [{"name": 1}]}, []], ids=json.dumps)
def test_an_invalid_page_is_an_error(page: Any) -> None:
    """A partial list would exclude sizes that exist."""
    with pytest.raises(msgspec.ValidationError):
        decode_page(lambda _: True)(json.dumps(page).encode())


NO_SPOT = [{"name": "LowPriorityCapable", "value": "False"}]


@pytest.mark.parametrize(
    ("more", "offering", "cause"),
    [
        ({}, {}, ""),
        ({}, {"zone": "2"}, ""),
        ({}, {"capacity_type": "spot"}, ""),
        ({}, {"size": A100.lower()}, ""),
        ({}, {"size": T4}, f"{T4} is not offered in westeurope"),
        ({}, {"zone": "3"}, f"{A100} is not available to this subscription in zone 3 of westeurope"),
        ({"capabilities": NO_SPOT}, {"capacity_type": "spot"}, f"{A100} is not offered as spot"),
        ({"capabilities": NO_SPOT}, {}, ""),
        ({"restrictions": [restricted("Zone", "1")]}, {}, ""),
        (
            {"restrictions": [restricted("Zone", "1")]},
            {"zone": "1"},
            f"{A100} is not available to this subscription in zone 1 of westeurope",
        ),
        (
            {"restrictions": [restricted("Location")]},
            {},
            f"{A100} is not available to this subscription in westeurope: NotAvailableForSubscription",
        ),
    ],
)
def test_what_the_list_excludes(more: dict[str, Any], offering: dict[str, Any], cause: str) -> None:
    """A restriction of zones leaves the machine without a zone, for which Azure chooses another one."""
    found = to_skus([row(**more)], "westeurope")
    assert excluded(found, Offering(**{"size": A100, **offering}), "westeurope") == cause
