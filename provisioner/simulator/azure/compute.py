"""Quotas and sizes of Compute, and the caller's permissions.

Members and casing are as documented: the two lists write families in different casing, and capabilities are strings.
Usage is computed from the machines.

Source: https://learn.microsoft.com/en-us/rest/api/compute/usage/list (2024-07-01),
https://learn.microsoft.com/en-us/rest/api/compute/resource-skus/list (2021-07-01),
https://learn.microsoft.com/en-us/rest/api/authorization/permissions/list-for-resource (2022-04-01),
docs/references/agent-pools.md#gpu-sizes (families).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import errors, quota, sizes
from .agentpool import Pool
from .errors import Answer
from .faults import Fault
from .routing import Call
from .settings import AzureSettings

VERBS = frozenset({"PERMISSIONS", "USAGES", "SKUS", "IDENTITY", "PROVIDER"})
TOTAL, LOW_PRIORITY = "cores", "lowPriorityCores"
LIMIT = 1000
ZONES = ("1", "2", "3")
_CPU_SIZES = ("Standard_D2s_v5", "Standard_D4s_v5", "Standard_D8s_v5")


@dataclass(slots=True)
class Compute:
    """The sizes that the location lacks, zones of sizes that do not have all, and the caller's roles.

    Restrictions of sizes are faults (`faults.restricted`); quotas are in the settings.
    """

    absent: set[str] = field(default_factory=set)
    zones: dict[str, tuple[str, ...]] = field(default_factory=dict)
    roles: list[dict[str, list[str]]] = field(default_factory=lambda: [{"actions": ["*"], "notActions": []}])


def catalogue() -> tuple[str, ...]:
    """All sizes."""
    return (*sizes.names(), *_CPU_SIZES)


def answer(
    compute: Compute, settings: AzureSettings, pools: Iterable[Pool], faults: Iterable[Fault], call: Call
) -> Mapping[str, Any]:
    """The body for one of `VERBS`; empty for other locations than the cluster's."""
    match call.verb:
        case "PERMISSIONS":
            return permissions(compute)
        case "PROVIDER":
            return provider(settings)
        case "USAGES":
            return usages(settings, pools) if call.item.lower() == settings.location else {"value": []}
    wanted = call.query.get("$filter", "")
    here = not wanted or wanted == f"location eq '{settings.location}'"
    return skus(compute, settings, faults) if here else {"value": []}


def provider(settings: AzureSettings) -> dict[str, Any]:
    """Microsoft.ContainerService with the versions of its API."""
    kinds = ("managedClusters", "managedClusters/agentPools")
    types = [{"resourceType": kind, "apiVersions": list(settings.api_versions)} for kind in kinds]
    return {"namespace": "Microsoft.ContainerService", "registrationState": "Registered", "resourceTypes": types}


def usages(settings: AzureSettings, pools: Iterable[Pool]) -> dict[str, Any]:
    """Limits and usage in the location, by family; a quota that is not set is `LIMIT`."""
    limits = {TOTAL: settings.regional_cores, LOW_PRIORITY.casefold(): settings.low_priority_cores}
    limits |= {family.casefold(): cores for family, cores in settings.family_cores.items()}
    used: dict[str, int] = dict.fromkeys((TOTAL, LOW_PRIORITY, *(_listed(quota.family(s)) for s in catalogue())), 0)
    for pool in pools:
        family = _listed(quota.family(pool.size))
        for name in (LOW_PRIORITY,) if pool.priority == "Spot" else (TOTAL, family):
            used[name] = used.get(name, 0) + quota.cores(pool.size, len(pool.machines))
    return {"value": [_usage(name, cores, _or_default(limits.get(name.casefold()))) for name, cores in used.items()]}


def _listed(family: str) -> str:
    return family.replace("Standard", "standard", 1)


def _or_default(limit: int | None) -> int:
    return LIMIT if limit is None else limit


def _usage(name: str, cores: int, limit: int) -> dict[str, Any]:
    named = {"value": name, "localizedValue": f"{name} vCPUs"}
    return {"name": named, "unit": "Count", "currentValue": cores, "limit": limit}


def refusal(compute: Compute, location: str, pool: str, properties: Mapping[str, Any]) -> Answer | None:
    """The error of a pool for a size, or a zone, that the location does not have."""
    size, zones = str(properties.get("vmSize") or ""), properties.get("availabilityZones") or ()
    if size in compute.absent:
        return errors.bad_request(f"The VM size of {size} is not allowed in your subscription in location.")
    supported = compute.zones.get(size, ZONES)
    missing = [zone for zone in zones if zone not in supported]
    return errors.zones_not_supported(pool, missing, location, supported) if missing else None


def skus(compute: Compute, settings: AzureSettings, faults: Iterable[Fault]) -> dict[str, Any]:
    """All sizes in the location, with their restrictions, and a disk, because the API lists disks too."""
    disk = {"resourceType": "disks", "name": "Premium_LRS", "locations": [settings.location], "restrictions": []}
    restricted = [fault for fault in faults if fault.restricted]
    listed = (size for size in catalogue() if size not in compute.absent)
    return {"value": [disk, *(_sku(size, compute, restricted, settings) for size in listed)]}


def _sku(size: str, compute: Compute, restricted: Iterable[Fault], settings: AzureSettings) -> dict[str, Any]:
    found, location = sizes.find(size) or sizes.Size(), settings.location
    local = settings.local_disks_gib.get(size, 0)
    capabilities = {
        "MaxResourceVolumeMB": local * 1024 or 65536,
        **({"EphemeralOSDiskSupported": True} if local else {}),
        "vCPUs": found.vcpus,
        "HyperVGenerations": "V1,V2",
        "MemoryGB": found.memory_gib,
        "LowPriorityCapable": True,
        "PremiumIO": True,
        **({"GPUs": found.gpus} if found.gpus else {}),
    }
    return {
        "resourceType": "virtualMachines",
        "name": size,
        "tier": "Standard",
        "size": size.removeprefix(sizes.PREFIX),
        "family": quota.family(size),
        "locations": [location],
        "locationInfo": [{"location": location, "zones": list(compute.zones.get(size, ZONES)), "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in capabilities.items()],
        "restrictions": [_restriction(one, location) for one in restricted if one.size == size],
    }


def _restriction(one: Fault, location: str) -> dict[str, Any]:
    info: dict[str, Any] = {"locations": [location], **({"zones": [one.zone]} if one.zone else {})}
    kind = "Zone" if one.zone else "Location"
    return {"type": kind, "values": [location], "restrictionInfo": info, "reasonCode": one.restricted}


def permissions(compute: Compute) -> Mapping[str, Any]:
    """The caller's permissions on the cluster."""
    return {"value": [{**role, "dataActions": [], "notDataActions": []} for role in compute.roles]}
