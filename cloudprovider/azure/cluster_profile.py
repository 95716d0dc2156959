"""The properties of a managed cluster and of a managed identity that the command `values` needs, from ARM's responses.

Pure. An absent property is "" or False.

Source: https://learn.microsoft.com/en-us/rest/api/aks/managed-clusters/get (`oidcIssuerProfile`, `securityProfile`,
`azureMonitorProfile`, `identity`),
https://learn.microsoft.com/en-us/rest/api/managedidentity/user-assigned-identities/get.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class ClusterProfile(msgspec.Struct, frozen=True, kw_only=True):
    """`oidc_issuer` is a URL, "" if the issuer is disabled; `tenant_id` is that of the identity of the cluster."""

    location: str = ""
    power_state: str = ""
    kubernetes_version: str = ""
    tenant_id: str = ""
    oidc_issuer: str = ""
    workload_identity: bool = False
    managed_prometheus: bool = False


class ManagedIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A user-assigned managed identity."""

    client_id: str = ""
    tenant_id: str = ""


def to_managed_identity(body: Mapping[str, Any]) -> ManagedIdentity:
    """The identity of a response."""
    properties = _member(body, "properties")
    return ManagedIdentity(client_id=_text(properties, "clientId"), tenant_id=_text(properties, "tenantId"))


def to_cluster_profile(body: Mapping[str, Any]) -> ClusterProfile:
    """The profile of a response."""
    properties = _member(body, "properties")
    issuer = _member(properties, "oidcIssuerProfile")
    return ClusterProfile(
        location=_text(body, "location").replace(" ", "").lower(),
        power_state=_text(_member(properties, "powerState"), "code"),
        kubernetes_version=_text(properties, "currentKubernetesVersion") or _text(properties, "kubernetesVersion"),
        tenant_id=_text(_member(body, "identity"), "tenantId"),
        oidc_issuer=_text(issuer, "issuerURL") if issuer.get("enabled") is True else "",
        workload_identity=_member(_member(properties, "securityProfile"), "workloadIdentity").get("enabled") is True,
        managed_prometheus=_member(_member(properties, "azureMonitorProfile"), "metrics").get("enabled") is True,
    )


def _member(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    return value if isinstance(value, Mapping) else {}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""
