"""What settings say together: what is missing, what contradicts, what is probably not meant.

Pure judgements over the values; errors stop the program, warnings do not.

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
    "The workload-identity webhook injects it into pods with the label azure.workload.identity/use=true whose service "
    "account names a client id; or set DEPLOYMENT_MODE=managed."
)
_REQUIRED = {
    "subscription-id": "Set it to the id of the cluster's subscription: az account show --query id --output tsv.",
    "resource-group": "Set it to the resource group the cluster object is in (not the MC_ group of its nodes).",
    "cluster-name": "Set it to the cluster's name in Azure: az aks list --output table.",
}
_IDENTITY = ("tenant-id", "client-id", "federated-token-file")


def check(values: Mapping[str, Any], wrong: frozenset[str], *, acts: bool = True) -> tuple[list[FieldError], list[str]]:
    """All errors and warnings of a complete set of values; `wrong` names the fields whose trouble is told already.

    `acts`: the process itself acts as the identity, so that all of it is needed.
    """
    return [*_missing(values, wrong, acts=acts), *_same_port(values)], [
        *_azure_warnings(values),
        *_process_warnings(values),
    ]


def _missing(values: Mapping[str, Any], wrong: frozenset[str], *, acts: bool) -> list[FieldError]:
    required = dict(_REQUIRED)
    # A simulator on loopback takes no tokens, so nobody needs to have any.
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
    message, remedy = "it is the metrics' port as well", "Give METRICS_PORT and HEALTH_PROBE_PORT different numbers."
    return [FieldError("HEALTH_PROBE_PORT", "FieldValueDuplicate", message, str(port), remedy)]


def _azure_warnings(values: Mapping[str, Any]) -> list[str]:
    warnings = []
    if values["subscription_id"] and _GUID.fullmatch(values["subscription_id"]) is None:
        warnings.append("ARM_SUBSCRIPTION_ID is not a GUID; Azure's subscription ids are")
    if values["resource_group"].upper().startswith("MC_"):
        warnings.append(
            "ARM_RESOURCE_GROUP looks like the group of the cluster's nodes; the group of the cluster itself is needed"
        )
    endpoint, audience = values["arm_endpoint"], values["arm_audience"]
    host = urlsplit(endpoint).hostname or ""
    if endpoint.startswith("http://"):
        warnings.append(
            f"ARM_ENDPOINT is plain http on loopback ({host}): no token is sent there; for simulations only"
        )
    elif not is_loopback(host) and endpoint not in {cloud.endpoint for cloud in CLOUDS}:
        warnings.append(f"ARM_ENDPOINT is no address of Azure's: tokens for {audience} will be sent to {host}")
    issuer = next((cloud for cloud in CLOUDS if cloud.authority == values["authority_host"]), None)
    if issuer is not None and issuer is not find_cloud(values["cloud"]):
        warnings.append(f"AZURE_AUTHORITY_HOST belongs to {issuer.name}, AZURE_ENVIRONMENT is {values['cloud']}")
    return warnings


def _process_warnings(values: Mapping[str, Any]) -> list[str]:
    warnings = []
    if values["disable_leader_election"]:
        warnings.append("leader election is off: run one replica only, two would both write")
    gates = dict(values["feature_gates"])
    if "NodeRepair" not in gates:
        warnings.append(
            "FEATURE_GATES does not name NodeRepair, so Nodes are not repaired; add NodeRepair=true to have it"
        )
    unknown = sorted(set(gates) - KNOWN_GATES)
    if unknown:
        warnings.append(f"FEATURE_GATES names gates that do not exist: {', '.join(unknown)}")
    return warnings
