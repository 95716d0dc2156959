"""What `check` and `values` ask Azure beyond agent pools: who we are, what we may do, what the subscription has left.

Reads only, each within 15 s, each a CloudError if it fails; only what is needed is kept. Names of families and
sizes are compared without regard to case, as Azure's own lists differ in it. A token is looked at for whose it is, and
neither kept nor shown.

Source: https://learn.microsoft.com/en-us/rest/api/compute/usage/list (2024-07-01),
https://learn.microsoft.com/en-us/rest/api/compute/resource-skus/list (2021-07-01),
https://learn.microsoft.com/en-us/rest/api/authorization/permissions/list-for-resource (2022-04-01),
docs/references/agent-pools.md#gpu-sizes, docs/references/agent-pools.md#identity-and-clouds.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from .arm_reads import CALL_SECONDS, judging, read, rows
from .client import API_VERSION, AzureConfig, Credential
from .cluster_profile import ClusterProfile, ManagedIdentity, managed_identity_of, profile_of

if TYPE_CHECKING:
    from azure.mgmt.containerservice.aio import ContainerServiceClient

PERMISSIONS_VERSION, USAGES_VERSION, SKUS_VERSION = "2022-04-01", "2024-07-01", "2021-07-01"
IDENTITIES_VERSION = "2023-01-31"
TOTAL, LOW_PRIORITY = "cores", "lowprioritycores"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose token it is: ids of Entra, "" where the token does not say."""

    tenant: str = ""
    name: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """vCPUs of one family in the location."""

    limit: int
    used: int


class Sku(msgspec.Struct, frozen=True, kw_only=True):
    """A size as it is offered here. `restricted`: why it cannot be had at all; `zones_restricted`: where not."""

    name: str
    family: str
    vcpus: int
    zones: tuple[str, ...] = ()
    restricted: str = ""
    zones_restricted: tuple[str, ...] = ()


class Permissions(msgspec.Struct, frozen=True):
    """Pairs of what a role allows and what it takes away again; roles add up."""

    roles: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    def allow(self, action: str) -> bool:
        """Whether some role allows the action."""
        return any(_any(granted, action) and not _any(taken, action) for granted, taken in self.roles)


class Inspector:
    """One subscription and cluster, through a client that is somebody else's."""

    def __init__(self, client: "ContainerServiceClient", credential: Credential, config: AzureConfig) -> None:
        self._client = client
        self._credential = credential
        self._config = config

    async def identity(self) -> Identity:
        """Get a token, and say whose it is."""
        with judging("cluster", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return identity_of((await self._credential.get_token(self._config.arm_scope)).token)

    async def profile(self) -> ClusterProfile:
        """What the managed cluster is like, beyond what the controller needs of it."""
        with judging("cluster", ""):
            async with asyncio.timeout(CALL_SECONDS):
                url = f"{quote(self._config.cluster_path)}?api-version={API_VERSION}"
                return profile_of(await read(self._client, url))

    async def managed_identity(self, group: str, name: str) -> ManagedIdentity:
        """A user-assigned identity of the subscription; a CloudError of status 404 if there is none of that name."""
        provider = "providers/Microsoft.ManagedIdentity/userAssignedIdentities"
        path = f"/subscriptions/{self._config.subscription_id}/resourceGroups/{group}/{provider}/{name}"
        with judging("list", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return managed_identity_of(await read(self._client, f"{quote(path)}?api-version={IDENTITIES_VERSION}"))

    async def permissions(self) -> Permissions:
        """What we may do to the cluster and its pools."""
        path = f"{self._config.cluster_path}/providers/Microsoft.Authorization/permissions"
        found = await self._rows(f"{quote(path)}?api-version={PERMISSIONS_VERSION}")
        return Permissions(tuple((_texts(row.get("actions")), _texts(row.get("notActions"))) for row in found))

    async def usages(self, location: str) -> Mapping[str, Usage]:
        """vCPUs by family, in lower case; `cores` is the location's total, `lowprioritycores` that of spot."""
        path = f"{self._compute}/locations/{location}/usages"
        found = await self._rows(f"{quote(path)}?api-version={USAGES_VERSION}")
        return {name.casefold(): usage for name, usage in map(_usage, found) if name}

    async def skus(self, location: str, sizes: Iterable[str]) -> Mapping[str, Sku]:
        """These sizes, by their names in lower case; those that the location does not offer are not there."""
        wanted = {size.casefold() for size in sizes}
        here = quote(f"location eq '{location}'")
        found = await self._rows(f"{quote(self._compute)}/skus?api-version={SKUS_VERSION}&%24filter={here}")
        return {
            name: _sku(row, location)
            for row in found
            if row.get("resourceType") == "virtualMachines" and (name := str(row.get("name")).casefold()) in wanted
        }

    @property
    def _compute(self) -> str:
        return f"/subscriptions/{self._config.subscription_id}/providers/Microsoft.Compute"

    async def _rows(self, url: str) -> list[Mapping[str, Any]]:
        with judging("list", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return [row async for row in rows(self._client, url, self._config.arm_endpoint)]


def identity_of(token: str) -> Identity:
    """Whose token this is, by its payload; it is not verified, which is the business of who accepts it."""
    parts = token.split(".")
    try:
        payload = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, binascii.Error, ValueError, msgspec.DecodeError):
        return Identity()
    if not isinstance(payload, dict):
        return Identity()
    names = (str(payload.get(key) or "") for key in ("upn", "unique_name", "appid", "azp", "oid"))
    return Identity(tenant=str(payload.get("tid") or ""), name=next((name for name in names if name), ""))


def _any(patterns: Iterable[str], action: str) -> bool:
    """Whether a pattern fits: `*` stands for anything, slashes too; case does not count."""
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), action, re.IGNORECASE) for pattern in patterns
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def _usage(row: Mapping[str, Any]) -> tuple[str, Usage]:
    name = row.get("name")
    value = str(name.get("value") or "") if isinstance(name, Mapping) else ""
    return value, Usage(limit=int(row.get("limit") or 0), used=int(row.get("currentValue") or 0))


def _sku(row: Mapping[str, Any], location: str) -> Sku:
    capabilities = {str(one.get("name")): str(one.get("value")) for one in _maps(row.get("capabilities"))}
    zones = [zone for one in _maps(row.get("locationInfo")) for zone in _texts(one.get("zones"))]
    whole, zonal = "", list[str]()
    for one in _maps(row.get("restrictions")):
        info = one.get("restrictionInfo")
        places = _texts(info.get("locations")) if isinstance(info, Mapping) else ()
        if places and location.casefold() not in (place.casefold() for place in places):
            continue
        if one.get("type") == "Zone":
            zonal += _texts(info.get("zones")) if isinstance(info, Mapping) else ()
        else:
            whole = str(one.get("reasonCode") or "restricted")
    vcpus = capabilities.get("vCPUs", "")
    return Sku(
        name=str(row.get("name")),
        family=str(row.get("family") or ""),
        vcpus=int(vcpus) if vcpus.isdecimal() else 0,
        zones=tuple(sorted(zones)),
        restricted=whole,
        zones_restricted=tuple(sorted(zonal)),
    )


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
