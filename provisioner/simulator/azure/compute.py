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

from . import quota, sizes
from .agentpool import Pool
from .routing import Call
from .settings import AzureSettings

VERBS = frozenset({"PERMISSIONS", "USAGES", "SKUS", "IDENTITY", "PROVIDER"})
TOTAL, LOW_PRIORITY = "cores", "lowPriorityCores"
LIMIT = 1000
ZONES = ("1", "2", "3")
_CPU_SIZES = ("Standard_D2s_v5", "Standard_D4s_v5", "Standard_D8s_v5")


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """A size that is not available to this subscription: in the location, or in these zones."""

    size: str
    zones: tuple[str, ...] = ()
    reason: str = "NotAvailableForSubscription"


@dataclass(slots=True)
class Compute:
    """Restrictions of sizes, and the caller's roles; quotas are in the settings."""

    restrictions: list[Restriction] = field(default_factory=list)
    roles: list[dict[str, list[str]]] = field(default_factory=lambda: [{"actions": ["*"], "notActions": []}])


def catalogue() -> tuple[str, ...]:
    """All sizes."""
    return (*sizes.names(), *_CPU_SIZES)


def answer(compute: Compute, settings: AzureSettings, pools: Iterable[Pool], call: Call) -> Mapping[str, Any]:
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
    return skus(compute, settings) if here else {"value": []}


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


def skus(compute: Compute, settings: AzureSettings) -> dict[str, Any]:
    """All sizes in the location, with their restrictions, and a disk, because the API lists disks too."""
    disk = {"resourceType": "disks", "name": "Premium_LRS", "locations": [settings.location], "restrictions": []}
    return {"value": [disk, *(_sku(size, compute, settings.location) for size in catalogue())]}


def _sku(size: str, compute: Compute, location: str) -> dict[str, Any]:
    found = sizes.find(size) or sizes.Size()
    capabilities = {"vCPUs": found.vcpus, "MemoryGB": found.memory_gib, **({"GPUs": found.gpus} if found.gpus else {})}
    return {
        "resourceType": "virtualMachines",
        "name": size,
        "tier": "Standard",
        "size": size.removeprefix(sizes.PREFIX),
        "family": quota.family(size),
        "locations": [location],
        "locationInfo": [{"location": location, "zones": list(ZONES), "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in capabilities.items()],
        "restrictions": [_restricted(one, location) for one in compute.restrictions if one.size == size],
    }


def _restricted(one: Restriction, location: str) -> dict[str, Any]:
    info: dict[str, Any] = {"locations": [location], **({"zones": list(one.zones)} if one.zones else {})}
    kind = "Zone" if one.zones else "Location"
    return {"type": kind, "values": [location], "restrictionInfo": info, "reasonCode": one.reason}


def permissions(compute: Compute) -> Mapping[str, Any]:
    """The caller's permissions on the cluster."""
    return {"value": [{**role, "dataActions": [], "notDataActions": []} for role in compute.roles]}
