"""Checks of all settings together: missing settings, contradictions, and values that are probably unintended.

Errors stop the program; warnings are logged.

Source: docs/references/kaito.md#environment-variables, docs/references/agent-pools.md#identity-and-clouds.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from provisioner.api.field_error import FieldError

from .clouds import CLOUDS, find_cloud
from .kinds import is_loopback
from .options import BY_FLAG, KNOWN_GATES

_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_INJECTED = (
    "The workload identity webhook injects it into Pods with the label azure.workload.identity/use=true whose "
    "ServiceAccount names a client ID; or set DEPLOYMENT_MODE=managed."
)
REQUIRED = {
    "subscription-id": "Set it to the ID of the cluster's subscription: az account show --query id --output tsv.",
    "resource-group": "Set it to the resource group of the managed cluster, not to the MC_ group of its nodes.",
    "cluster-name": "Set it to the cluster's name in Azure: az aks list --output table.",
}
_IDENTITY = ("tenant-id", "client-id", "federated-token-file")


def check(
    values: Mapping[str, Any], wrong: frozenset[str], *, acts: bool = True, azure: bool = True
) -> tuple[list[FieldError], list[str]]:
    """All errors and warnings of a complete set of values; `wrong` names the fields that have an error already.

    `acts`: the process itself uses the workload identity, so that all of it is needed. `azure`: it needs the cluster in
    Azure.
    """
    missing = _missing(values, wrong, acts=acts) if azure else []
    return [*missing, *_same_port(values)], [
        *_azure_warnings(values),
        *_process_warnings(values),
    ]


def _missing(values: Mapping[str, Any], wrong: frozenset[str], *, acts: bool) -> list[FieldError]:
    required = dict(REQUIRED)
    # A simulator on loopback accepts requests without a token.
    if acts and values["deployment_mode"] == "self-hosted" and not values["arm_endpoint"].startswith("http://"):
        required |= dict.fromkeys(_IDENTITY, _INJECTED)
    return [
        FieldError(BY_FLAG[flag].env[0], "FieldValueRequired", "it is not set", remedy=remedy)
        for flag, remedy in required.items()
        if not values[BY_FLAG[flag].field] and BY_FLAG[flag].field not in wrong
    ]


def _same_port(values: Mapping[str, Any]) -> list[FieldError]:
    port = values["metrics_port"]
    if port == 0 or port != values["health_probe_port"]:
        return []
    message, remedy = "METRICS_PORT has the same value", "Set METRICS_PORT and HEALTH_PROBE_PORT to different ports."
    return [FieldError("HEALTH_PROBE_PORT", "FieldValueDuplicate", message, str(port), remedy)]


def _azure_warnings(values: Mapping[str, Any]) -> list[str]:
    warnings = []
    if values["subscription_id"] and _GUID.fullmatch(values["subscription_id"]) is None:
        warnings.append("ARM_SUBSCRIPTION_ID is not a GUID, as the IDs of Azure's subscriptions are")
    if values["resource_group"].upper().startswith("MC_"):
        warnings.append(
            "ARM_RESOURCE_GROUP looks like the resource group of the nodes; set it to that of the managed cluster"
        )
    endpoint, audience = values["arm_endpoint"], values["arm_audience"]
    host = urlsplit(endpoint).hostname or ""
    if endpoint.startswith("http://"):
        warnings.append(f"ARM_ENDPOINT uses http on loopback ({host}): requests have no token; for simulations only")
    elif not is_loopback(host) and endpoint not in {cloud.endpoint for cloud in CLOUDS}:
        warnings.append(f"ARM_ENDPOINT is not an address of Azure: tokens for {audience} are sent to {host}")
    issuer = next((cloud for cloud in CLOUDS if cloud.authority == values["authority_host"]), None)
    if issuer is not None and issuer is not find_cloud(values["cloud"]):
        warnings.append(f"AZURE_AUTHORITY_HOST is that of {issuer.name}, but AZURE_ENVIRONMENT is {values['cloud']}")
    return warnings


def _process_warnings(values: Mapping[str, Any]) -> list[str]:
    warnings = []
    if values["disable_leader_election"]:
        warnings.append("leader election is disabled: run one replica only, because two replicas would both write")
    gates = dict(values["feature_gates"])
    if "NodeRepair" not in gates:
        warnings.append(
            "FEATURE_GATES does not contain NodeRepair, so Nodes are not repaired; add NodeRepair=true to enable it"
        )
    unknown = sorted(set(gates) - KNOWN_GATES)
    if unknown:
        warnings.append(f"FEATURE_GATES contains unknown gates: {', '.join(unknown)}")
    return warnings
