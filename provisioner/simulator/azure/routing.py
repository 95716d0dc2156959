"""Parses a request to ARM into its verb and the names in its path.

Path segments match in any case, names only exactly. A path that is not served has the verb OTHER.

Source: docs/references/agent-pools.md#calls-and-accepted-statuses,
docs/references/agent-pools.md#long-running-operations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

_SCOPE = (
    "subscriptions",
    None,
    "resourcegroups",
    None,
    "providers",
    "microsoft.containerservice",
    "managedclusters",
    None,
)
_REGION = ("subscriptions", None, "providers", "microsoft.containerservice", "locations", None)
_IDENTITIES = ("subscriptions", None, "resourcegroups", None, "providers", "microsoft.managedidentity")
_COMPUTE = ("subscriptions", None, "providers", "microsoft.compute")
_ROUTES = {
    ("GET", (*_SCOPE,)): "CLUSTER",
    ("GET", (*_SCOPE, "agentpools")): "LIST",
    ("GET", (*_SCOPE, "agentpools", None)): "GET",
    ("PUT", (*_SCOPE, "agentpools", None)): "PUT",
    ("DELETE", (*_SCOPE, "agentpools", None)): "DELETE",
    ("POST", (*_SCOPE, "agentpools", None, "abort")): "ABORT",
    ("POST", (*_SCOPE, "agentpools", None, "deletemachines")): "DELETE_MACHINES",
    ("GET", (*_SCOPE, "agentpools", None, "machines")): "MACHINES",
    ("GET", (*_SCOPE, "agentpools", None, "machines", None)): "MACHINE",
    ("GET", (*_SCOPE, "agentpools", None, "upgradeprofiles", "default")): "UPGRADE_PROFILE",
    ("GET", (*_SCOPE, "providers", "microsoft.authorization", "permissions")): "PERMISSIONS",
    ("GET", (*_IDENTITIES, "userassignedidentities", None)): "IDENTITY",
    ("GET", (*_COMPUTE, "locations", None, "usages")): "USAGES",
    ("GET", (*_COMPUTE, "skus")): "SKUS",
    ("GET", ("subscriptions", None, "providers", "microsoft.containerservice")): "PROVIDER",
    ("GET", (*_REGION, "operations", None)): "OPERATION",
    ("GET", (*_REGION, "operationresults", None)): "RESULT",
}
# Resources of a subscription and a location, without a resource group.
BEYOND_GROUPS = frozenset({"OPERATION", "RESULT", "USAGES", "SKUS", "PROVIDER"})
_CLUSTERS = "Microsoft.ContainerService/managedClusters"
# The permission for each verb, at the cluster or above it. The URL of an operation is signed; that it needs no
# permission is an assumption.
ACTIONS = {
    "CLUSTER": f"{_CLUSTERS}/read",
    "LIST": f"{_CLUSTERS}/agentPools/read",
    "GET": f"{_CLUSTERS}/agentPools/read",
    "PUT": f"{_CLUSTERS}/agentPools/write",
    "DELETE": f"{_CLUSTERS}/agentPools/delete",
    "ABORT": f"{_CLUSTERS}/agentPools/abort/action",
    "DELETE_MACHINES": f"{_CLUSTERS}/agentPools/deleteMachines/action",
    "MACHINES": f"{_CLUSTERS}/agentPools/machines/read",
    "MACHINE": f"{_CLUSTERS}/agentPools/machines/read",
    "UPGRADE_PROFILE": f"{_CLUSTERS}/agentPools/upgradeProfiles/read",
    "PERMISSIONS": "Microsoft.Authorization/permissions/read",
    "IDENTITY": "Microsoft.ManagedIdentity/userAssignedIdentities/read",
    "USAGES": "Microsoft.Compute/locations/usages/read",
    "SKUS": "Microsoft.Compute/skus/read",
    "PROVIDER": "Microsoft.Resources/subscriptions/providers/read",
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """`origin` is scheme and host as the client wrote them; `body` is None if it is absent or not a JSON object."""

    verb: str
    subscription: str = ""
    group: str = ""
    cluster: str = ""
    pool: str = ""
    item: str = ""
    origin: str = ""
    url: str = ""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The `properties` of the body; empty if there are none."""
        properties = (self.body or {}).get("properties")
        return properties if isinstance(properties, dict) else {}


def route(method: str, path: str) -> dict[str, str]:
    """The verb and the names in a path, as `Call`'s arguments. `item`: a machine, operation, location, identity."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    for (wanted, pattern), verb in _ROUTES.items():
        if wanted == method and _fits(parts, pattern):
            names = [part for part, fixed in zip(parts, pattern, strict=True) if fixed is None]
            if verb in BEYOND_GROUPS:
                return {"verb": verb, "subscription": names[0], "item": names[-1]}
            if verb == "IDENTITY":
                return {"verb": verb, "subscription": names[0], "group": names[1], "item": names[-1]}
            keys = ("subscription", "group", "cluster", "pool", "item")
            return {"verb": verb, **dict(zip(keys, names, strict=False))}
    return {"verb": "OTHER", "subscription": parts[1] if len(parts) > 1 else ""}


def _fits(parts: list[str], pattern: tuple[str | None, ...]) -> bool:
    return len(parts) == len(pattern) and all(
        part if fixed is None else part.lower() == fixed for part, fixed in zip(parts, pattern, strict=True)
    )
