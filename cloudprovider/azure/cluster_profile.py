"""What a managed cluster and an identity say of themselves that the chart's values need: pure, from ARM's answers.

"" or False for what the answer does not say; no value is guessed.

Source: https://learn.microsoft.com/en-us/rest/api/aks/managed-clusters/get (`oidcIssuerProfile`, `securityProfile`,
`azureMonitorProfile`, `identity`),
https://learn.microsoft.com/en-us/rest/api/managedidentity/user-assigned-identities/get.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class ClusterProfile(msgspec.Struct, frozen=True, kw_only=True):
    """`oidc_issuer`: its address, "" while there is none; `tenant_id`: of the cluster's own identity."""

    location: str = ""
    power_state: str = ""
    kubernetes_version: str = ""
    tenant_id: str = ""
    oidc_issuer: str = ""
    workload_identity: bool = False
    managed_prometheus: bool = False


class ManagedIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A user-assigned identity, by the ids that tokens name."""

    client_id: str = ""
    tenant_id: str = ""


def managed_identity_of(body: Mapping[str, Any]) -> ManagedIdentity:
    """The identity in its body."""
    said = _member(body, "properties")
    return ManagedIdentity(client_id=_text(said, "clientId"), tenant_id=_text(said, "tenantId"))


def profile_of(body: Mapping[str, Any]) -> ClusterProfile:
    """The profile in a managed cluster's body."""
    said = _member(body, "properties")
    issuer = _member(said, "oidcIssuerProfile")
    return ClusterProfile(
        location=_text(body, "location").replace(" ", "").lower(),
        power_state=_text(_member(said, "powerState"), "code"),
        kubernetes_version=_text(said, "currentKubernetesVersion") or _text(said, "kubernetesVersion"),
        tenant_id=_text(_member(body, "identity"), "tenantId"),
        oidc_issuer=_text(issuer, "issuerURL") if issuer.get("enabled") is True else "",
        workload_identity=_member(_member(said, "securityProfile"), "workloadIdentity").get("enabled") is True,
        managed_prometheus=_member(_member(said, "azureMonitorProfile"), "metrics").get("enabled") is True,
    )


def _member(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    return value if isinstance(value, Mapping) else {}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""
