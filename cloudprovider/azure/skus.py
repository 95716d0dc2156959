"""The VM sizes of a location: whether this subscription can use them, in which zones, and as spot.

The list of a location has megabytes; only the rows of the wanted sizes are decoded whole. Names of sizes are compared
without case. A size with a restriction of type Location cannot be used at all; one of type Zone excludes zones.

Source: https://learn.microsoft.com/en-us/rest/api/compute/resource-skus/list (2021-07-01),
docs/references/agent-pools.md#gpu-sizes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from cloudprovider.interface import SPOT, Offering, ResourceSku

from .arm_reads import Page, decode_object
from .client import AzureConfig

SKUS_VERSION = "2021-07-01"
VIRTUAL_MACHINES = "virtualMachines"


class _Row(msgspec.Struct, rename="camel"):
    resource_type: str = ""
    name: str = ""


class _Rows(msgspec.Struct, rename="camel"):
    value: list[msgspec.Raw]
    next_link: str | None = None


_ROWS, _ROW = msgspec.json.Decoder(_Rows), msgspec.json.Decoder(_Row)


def skus_url(config: AzureConfig, location: str) -> str:
    """The address of the list of sizes of a location."""
    path = f"/subscriptions/{config.subscription_id}/providers/Microsoft.Compute/skus"
    here = quote(f"location eq '{location}'")
    return f"{quote(path)}?api-version={SKUS_VERSION}&%24filter={here}"


def decode_page(wanted: Callable[[str], bool]) -> Callable[[bytes], Page]:
    """A decoder of a page of that list that leaves out all rows but those of wanted sizes. It raises ValueError."""

    def decode(content: bytes) -> Page:
        page = _ROWS.decode(content)
        kept = []
        for raw in page.value:
            row = _ROW.decode(raw)
            if row.resource_type == VIRTUAL_MACHINES and wanted(row.name):
                kept.append(decode_object(bytes(raw)))
        return Page(kept, page.next_link or "")

    return decode


def to_skus(rows: Iterable[Mapping[str, Any]], location: str) -> Mapping[str, ResourceSku]:
    """The sizes of the rows, by name in lower case."""
    return {sku.name.casefold(): sku for sku in (to_sku(row, location) for row in rows)}


def to_sku(row: Mapping[str, Any], location: str) -> ResourceSku:
    """The size of one row. Members of other types than documented count as absent."""
    capabilities = {str(one.get("name")): str(one.get("value")) for one in _maps(row.get("capabilities"))}
    zones = [zone for one in _maps(row.get("locationInfo")) for zone in texts(one.get("zones"))]
    whole, zonal = "", list[str]()
    for one in _maps(row.get("restrictions")):
        info = one.get("restrictionInfo")
        places = texts(info.get("locations")) if isinstance(info, Mapping) else ()
        if places and location.casefold() not in (place.casefold() for place in places):
            continue
        if one.get("type") == "Zone":
            zonal += texts(info.get("zones")) if isinstance(info, Mapping) else ()
        else:
            whole = str(one.get("reasonCode") or "restricted")

    def number(name: str) -> int:
        value = capabilities.get(name, "")
        return int(value) if value.isdecimal() else 0

    ephemeral = capabilities.get("EphemeralOSDiskSupported", "").casefold()
    return ResourceSku(
        name=str(row.get("name")),
        family=str(row.get("family") or ""),
        vcpus=number("vCPUs"),
        zones=tuple(sorted(zones)),
        restricted=whole,
        zones_restricted=tuple(sorted(zonal)),
        spot=capabilities.get("LowPriorityCapable", "True").casefold() != "false",
        ephemeral=ephemeral == "true" if ephemeral in ("true", "false") else None,
        temp_gib=number("MaxResourceVolumeMB") // 1024,
        cache_gib=number("CachedDiskBytes") // 2**30,
        nvme_gib=number("NvmeDiskSizeInMiB") // 1024,
    )


def excluded(skus: Mapping[str, ResourceSku], offering: Offering, location: str) -> str:
    """Why the list excludes an offering; "" if it does not. `skus`: by name in lower case."""
    sku = skus.get(offering.size.casefold())
    if sku is None:
        return f"{offering.size} is not offered in {location}"
    if sku.restricted:
        return f"{offering.size} is not available to this subscription in {location}: {sku.restricted}"
    if offering.zone and (offering.zone not in sku.zones or offering.zone in sku.zones_restricted):
        return f"{offering.size} is not available to this subscription in zone {offering.zone} of {location}"
    if offering.capacity_type == SPOT and not sku.spot:
        return f"{offering.size} is not offered as spot"
    return ""


def texts(value: Any) -> tuple[str, ...]:
    """The entries of a list as texts; () for another value."""
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
