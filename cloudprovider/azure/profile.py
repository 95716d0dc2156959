"""What a managed cluster says of itself that its chart's values need: pure, from ARM's answer.

Promise: "" or False for what the answer does not say; no value is guessed.
Left to others: reading it (`inspector.py`), what follows (`provisioner.commands`).

Source: Azure REST reference, ContainerService "Managed Clusters - Get": `oidcIssuerProfile`, `securityProfile`,
`azureMonitorProfile`, `identity`.
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
