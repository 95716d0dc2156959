"""Reads of a subscription for the commands `check` and `values`: identity, permissions, quota usage, VM sizes.

Each read has a timeout of 15 s and raises only CloudError. The case of names of families and sizes is ignored, because
it differs between Azure's lists. A token is decoded for its identity, and neither stored nor shown.

Source: https://learn.microsoft.com/en-us/rest/api/compute/usage/list (2024-07-01),
https://learn.microsoft.com/en-us/rest/api/authorization/permissions/list-for-resource (2022-04-01),
https://learn.microsoft.com/en-us/rest/api/resources/providers/get (2021-04-01),
docs/references/agent-pools.md#identity-and-clouds.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from cloudprovider.interface import ResourceSku, Usage

from .arm_reads import CALL_SECONDS, Page, decode_page_of_items, get_object, list_items, translate_errors
from .client import AzureConfig, Credential
from .cluster_profile import ClusterProfile, ManagedIdentity, to_cluster_profile, to_managed_identity
from .quota import quota_name
from .sdk_limits import bounded
from .skus import decode_page, skus_url, texts, to_skus

if TYPE_CHECKING:
    from azure.mgmt.containerservice.aio import ContainerServiceClient

PERMISSIONS_VERSION, USAGES_VERSION = "2022-04-01", "2024-07-01"
IDENTITIES_VERSION, PROVIDERS_VERSION = "2023-01-31", "2021-04-01"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a token: ids of Entra ID, "" if absent."""

    tenant: str = ""
    name: str = ""


class Permissions(msgspec.Struct, frozen=True):
    """The `actions` and `notActions` of each role; permissions of roles are additive."""

    roles: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    def allow(self, action: str) -> bool:
        """Whether a role allows the action."""
        return any(_any(granted, action) and not _any(taken, action) for granted, taken in self.roles)


class SubscriptionClient:
    """Reads of one subscription and cluster, over a client that it does not close."""

    def __init__(self, client: "ContainerServiceClient", credential: Credential, config: AzureConfig) -> None:
        self._client = client
        self._credential = credential
        self._config = config

    async def identity(self) -> Identity:
        """Get a token and return its identity."""
        with translate_errors("cluster", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return identity_of((await bounded(self._credential).get_token(self._config.arm_scope)).token)

    async def profile(self) -> ClusterProfile:
        """The profile of the managed cluster."""
        with translate_errors("cluster", ""):
            async with asyncio.timeout(CALL_SECONDS):
                url = f"{quote(self._config.cluster_path)}?api-version={self._config.api_version}"
                return to_cluster_profile(await get_object(self._client, url))

    async def api_versions(self) -> tuple[str, ...]:
        """The versions of the API of agent pools that the cloud offers, the newest first."""
        path = f"/subscriptions/{self._config.subscription_id}/providers/Microsoft.ContainerService"
        with translate_errors("list", ""):
            async with asyncio.timeout(CALL_SECONDS):
                body = await get_object(self._client, f"{quote(path)}?api-version={PROVIDERS_VERSION}")
        types = {str(one.get("resourceType")).casefold(): one for one in _maps(body.get("resourceTypes"))}
        found = types.get("managedclusters/agentpools") or types.get("managedclusters") or {}
        return tuple(sorted(texts(found.get("apiVersions")), reverse=True))

    async def managed_identity(self, group: str, name: str) -> ManagedIdentity:
        """A user-assigned identity of the subscription. Raises CloudError with status 404 if it does not exist."""
        provider = "providers/Microsoft.ManagedIdentity/userAssignedIdentities"
        path = f"/subscriptions/{self._config.subscription_id}/resourceGroups/{group}/{provider}/{name}"
        with translate_errors("list", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return to_managed_identity(
                    await get_object(self._client, f"{quote(path)}?api-version={IDENTITIES_VERSION}")
                )

    async def permissions(self) -> Permissions:
        """The permissions of the caller on the cluster and its agent pools."""
        path = f"{self._config.cluster_path}/providers/Microsoft.Authorization/permissions"
        found = await self._rows(f"{quote(path)}?api-version={PERMISSIONS_VERSION}")
        return Permissions(tuple((texts(row.get("actions")), texts(row.get("notActions"))) for row in found))

    async def usages(self, location: str) -> Mapping[str, Usage]:
        """Usages by family in lower case; `cores` is the regional total, `lowprioritycores` the total of spot."""
        return to_usages(await self._rows(usages_url(self._config, location)))

    async def skus(self, location: str, sizes: Iterable[str]) -> Mapping[str, ResourceSku]:
        """The given sizes by name in lower case, without those that the location does not offer."""
        wanted = {size.casefold() for size in sizes}
        decode = decode_page(lambda name: name.casefold() in wanted)
        return to_skus(await self._rows(skus_url(self._config, location), decode), location)

    async def _rows(self, url: str, decode: Callable[[bytes], Page] = decode_page_of_items) -> list[Mapping[str, Any]]:
        with translate_errors("list", ""):
            async with asyncio.timeout(CALL_SECONDS):
                return [row async for row in list_items(self._client, url, self._config.arm_endpoint, decode=decode)]


def identity_of(token: str) -> Identity:
    """The identity in the payload of a token, which is not verified."""
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
    """Whether a pattern matches: `*` matches any text, including slashes; case is ignored."""
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), action, re.IGNORECASE) for pattern in patterns
    )


def usages_url(config: AzureConfig, location: str) -> str:
    """The address of the list of usages of a location."""
    path = f"/subscriptions/{config.subscription_id}/providers/Microsoft.Compute/locations/{location}/usages"
    return f"{quote(path)}?api-version={USAGES_VERSION}"


def to_usages(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Usage]:
    """The usages of the rows of that list, by `quota_name`."""
    return {quota_name(name): usage for name, usage in map(_usage, rows) if name}


def _usage(row: Mapping[str, Any]) -> tuple[str, Usage]:
    name = row.get("name")
    value = str(name.get("value") or "") if isinstance(name, Mapping) else ""
    return value, Usage(limit=int(row.get("limit") or 0), used=int(row.get("currentValue") or 0))


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
