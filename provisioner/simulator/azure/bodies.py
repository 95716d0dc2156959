"""The response bodies of the simulated ARM.

Members, casing and irregularities are as recorded: `id` with lower-case `resourcegroups`, the size in the client's
casing, timestamps with seven fractional digits, `eTag` inside `properties`, an error only after a failure.

Source: docs/references/agent-pools.md#responses, docs/references/agent-pools.md#etags,
docs/references/agent-pools.md#long-running-operations, docs/references/agent-pools.md#names-and-ids.
"""

import string
from datetime import datetime
from typing import Any

from .agentpool import Pool, image
from .operations import Operation
from .settings import AzureSettings

POOL_TYPE = "Microsoft.ContainerService/managedClusters/agentPools"
_DIGITS = string.digits + string.ascii_lowercase


def time(moment: datetime) -> str:
    """`2026-08-01T12:00:00.1234560Z`."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}0Z"


def scale_set(settings: AzureSettings, pool: str) -> str:
    """The pool's scale set in the node resource group."""
    return f"aks-{pool}-{settings.name_digits}-vmss"


def node_name(settings: AzureSettings, pool: str, instance: int) -> str:
    """The machine's host name and its Node's name: the instance id in base 36, six places."""
    digits = ""
    while instance:
        instance, digit = divmod(instance, 36)
        digits = _DIGITS[digit] + digits
    return scale_set(settings, pool) + digits.rjust(6, "0")


def machine_id(settings: AzureSettings, pool: str, instance: int) -> str:
    """The machine's ARM id, in the casing ARM uses; the Node's providerID has the group lower-cased."""
    return (
        f"/subscriptions/{settings.subscription}/resourceGroups/{settings.machine_group}/providers/Microsoft.Compute"
        f"/virtualMachineScaleSets/{scale_set(settings, pool)}/virtualMachines/{instance}"
    )


def address(pool: Pool, instance: int) -> str:
    """The machine's IPv4 address."""
    return f"10.224.{pool.incarnation % 256}.{4 + instance % 250}"


def pool_body(settings: AzureSettings, pool: Pool) -> dict[str, Any]:
    """An agent pool."""
    properties = {
        **pool.properties,
        "eTag": pool.etag,
        "provisioningState": pool.state,
        "powerState": {"code": pool.power},
    }
    if pool.error is not None:
        properties["status"] = {"provisioningError": {"target": None, "additionalInfo": [], **pool.error}}
    return {
        "id": f"{settings.cluster_id}/agentPools/{pool.name}",
        "name": pool.name,
        "type": POOL_TYPE,
        "properties": properties,
    }


def machine_body(settings: AzureSettings, pool: Pool, instance: int) -> dict[str, Any]:
    """One machine of a pool."""
    name = node_name(settings, pool.name, instance)
    return {
        "id": f"{settings.cluster_id}/agentPools/{pool.name}/machines/{name}",
        "name": name,
        "type": POOL_TYPE + "/machines",
        "zones": list(pool.zones),
        "properties": {
            "resourceId": machine_id(settings, pool.name, instance),
            "network": {"ipAddresses": [{"family": "IPv4", "ip": address(pool, instance)}]},
        },
    }


def upgrade_profile_body(settings: AzureSettings, pool: Pool) -> dict[str, Any]:
    """What a pool can be upgraded to."""
    return {
        "id": f"{settings.cluster_id}/agentPools/{pool.name}/upgradeProfiles/default",
        "name": "default",
        "type": POOL_TYPE + "/upgradeProfiles",
        "properties": {
            "kubernetesVersion": str(pool.properties["currentOrchestratorVersion"]),
            "osType": "Linux",
            "latestNodeImageVersion": image(str(pool.properties["osSKU"]), settings.node_image_release),
        },
    }


def cluster_body(
    settings: AzureSettings, *, state: str, power: str, etag: str, pools: list[dict[str, Any]]
) -> dict[str, Any]:
    """The managed cluster; `pools` are pool bodies."""
    return {
        "id": settings.cluster_id,
        "name": settings.cluster,
        "type": "Microsoft.ContainerService/ManagedClusters",
        "location": settings.location,
        "eTag": etag,
        "identity": {"type": "SystemAssigned", "tenantId": settings.tenant},
        "properties": {
            "provisioningState": state,
            "powerState": {"code": power},
            "oidcIssuerProfile": {"enabled": True, "issuerURL": settings.issuer}
            if settings.oidc_issuer
            else {"enabled": False},
            "securityProfile": {"workloadIdentity": {"enabled": True}} if settings.workload_identity else {},
            "azureMonitorProfile": {"metrics": {"enabled": settings.managed_prometheus}},
            "kubernetesVersion": settings.kubernetes_version,
            "currentKubernetesVersion": settings.kubernetes_version,
            "dnsPrefix": settings.cluster,
            "maxAgentPools": settings.max_agent_pools,
            "networkProfile": {
                "networkPlugin": settings.network_plugin,
                **({"networkPluginMode": settings.network_plugin_mode} if settings.network_plugin_mode else {}),
            },
            "nodeResourceGroup": settings.machine_group,
            "agentPoolProfiles": [{"name": pool["name"], **pool["properties"]} for pool in pools],
        },
    }


def identity_body(settings: AzureSettings, name: str, client_id: str) -> dict[str, Any]:
    """A user-assigned managed identity."""
    group = settings.cluster_id.rpartition("/providers/")[0]
    return {
        "id": f"{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{name}",
        "name": name,
        "type": "Microsoft.ManagedIdentity/userAssignedIdentities",
        "location": settings.location,
        "properties": {"clientId": client_id, "tenantId": settings.tenant},
    }


def operation_body(operation: Operation) -> dict[str, Any]:
    """The body of a polled operation."""
    body: dict[str, Any] = {"name": operation.id, "status": operation.status, "startTime": time(operation.start)}
    if operation.end is not None:
        body["endTime"] = time(operation.end)
    if operation.error is not None:
        body["error"] = dict(operation.error)
    return body
