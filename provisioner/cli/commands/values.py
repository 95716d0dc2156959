"""`values`: prints Helm values for an existing cluster, read from Azure.

The command reads a token, the managed cluster and, if its client ID is not given, the managed identity. Values go to
stdout, what is missing or else the commands to run next to stderr. Exit codes: 0 complete, 1 the cluster could not be
read, 2 invalid usage, 3 something is missing: the values are incomplete.

The token is that of the caller (`az login`); the identity in the settings is that of the controller and is not used.
"""

import argparse
from collections.abc import Sequence

import msgspec
import yaml

from cloudprovider.errors import CloudError
from provisioner.cli.output import encoded
from provisioner.operator.azure import Azure, open_azure
from provisioner.settings import Settings

from .chart_values import Subject, gaps, next_steps, values_of
from .console import Console
from .refusal import OK, Refused

NOT_LOGGED_IN = "not logged in to Azure"
INCOMPLETE = 3
AGAIN = "The values are incomplete. Run the command below each cause, then this command again."
LOG_IN = "Run az login, with --tenant if you have several tenants."


async def run(settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    """Read the cluster and print its values; returns the exit code. Raises Refused."""
    try:
        async with open_azure(as_caller(settings)) as arm:
            return await print_values(arm, settings, wanted, console)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Refused(f"failed to connect to Azure: {why}", "Check SSL_CERT_FILE and the proxy.") from None


def as_caller(settings: Settings) -> Settings:
    """The settings without an identity, so that the caller's login is used."""
    return msgspec.structs.replace(settings, azure_cli=True, client_id="", tenant_id="")


async def print_values(arm: Azure, settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    """Read from Azure and print the values. Raises Refused."""
    try:
        await arm.inspector.identity()
    except CloudError as error:
        raise Refused(NOT_LOGGED_IN if error.reason == "NoToken" and not error.code else str(error), LOG_IN) from None
    try:
        profile = await arm.inspector.profile()
    except CloudError as error:
        raise _unread(error, settings) from None
    group = wanted.identity_resource_group or settings.resource_group
    settings, unread = await _identified(arm, settings, group, wanted.identity_name)
    names = wanted.release, wanted.namespace, wanted.identity_name, group
    subject = Subject(settings, profile, *names, image=wanted.image, unread=unread)
    lines = [*values_of(subject)]
    console.print(*(lines if wanted.output == "yaml" else [_json(lines)]))
    if missing := [*gaps(subject)]:
        console.err.writelines(f"gpu-provisioner values: {gap.what}\n    {gap.command}\n" for gap in missing)
        console.err.write(f"{AGAIN}\n")
        return INCOMPLETE
    console.err.write("\n".join(("", "Next steps, with the values in values.yaml:", *next_steps(subject), "")))
    return OK


def _json(lines: Sequence[str]) -> str:
    """The same values without the comments."""
    return encoded(yaml.safe_load("\n".join(lines)), "json")


async def _identified(arm: Azure, settings: Settings, group: str, name: str) -> tuple[Settings, str]:
    """The settings with the IDs of the identity, read unless given; and why they could not be read, else ""."""
    if settings.client_id or settings.deployment_mode != "self-hosted":
        return settings, ""
    try:
        found = await arm.inspector.managed_identity(group, name)
    except CloudError as error:
        absent = f"identity {name} not found in resource group {group}"
        return settings, absent if error.status == 404 else f"identity {name} of resource group {group}: {error}"
    tenant = settings.tenant_id or found.tenant_id
    return msgspec.structs.replace(settings, client_id=found.client_id, tenant_id=tenant), ""


def _unread(error: CloudError, settings: Settings) -> Refused:
    cause = f"cluster {settings.cluster_name} of resource group {settings.resource_group}: {error}"
    match error.status:
        case 404 if error.reason == "SubscriptionNotFound":
            return Refused(cause, "az account list -o table lists your subscriptions.")
        case 404:
            return Refused(cause, f"az aks list --subscription {settings.subscription_id} -o table lists the clusters.")
        case 401 | 403:
            return Refused(cause, "Request the role Reader on the cluster, or use another login.")
    return Refused(cause, "Run the command again when Azure responds; gpu-provisioner check reports more.")
