"""`values`: the chart's values for an existing cluster, from what Azure says of it.

Reads only: one token, the managed cluster, and the identity if its client id is not given. Values go to stdout
and nothing else does, so that it can be redirected; what is missing and what to do next goes to stderr. The token is
that of whoever runs it (azure-identity's default chain, as after `az login`); the identity that the settings name is
the controller's, and is not used.
"""

import argparse

import msgspec

from cloudprovider.errors import CloudError
from provisioner.operator.clients import Azure, open_arm
from provisioner.settings import Settings

from .chart_values import Subject, gaps, next_steps, values_of
from .console import Console
from .refusal import OK, Refused

NOBODY = "nobody is logged in to Azure here"
LOG_IN = "Log in with az login; az login --tenant if you have several tenants."


async def run(settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    """Read the cluster and print its values; returns the exit code. Raises Refused."""
    try:
        async with open_arm(as_whoever_runs_it(settings)) as arm:
            return await told(arm, settings, wanted, console)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Refused(f"no connection to Azure can be made: {why}", "Check SSL_CERT_FILE and the proxy.") from None


def as_whoever_runs_it(settings: Settings) -> Settings:
    """The same, with nobody in particular named: the default chain finds who is logged in."""
    return msgspec.structs.replace(settings, deployment_mode="managed", client_id="", tenant_id="")


async def told(arm: Azure, settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    """Print what was read. Raises Refused."""
    try:
        await arm.inspector.identity()
    except CloudError as error:
        raise Refused(NOBODY if error.reason == "NoToken" and not error.code else str(error), LOG_IN) from None
    try:
        profile = await arm.inspector.profile()
    except CloudError as error:
        raise _unread(error, settings) from None
    group = wanted.identity_resource_group or settings.resource_group
    settings, unread = await _identified(arm, settings, group, wanted.identity_name)
    subject = Subject(settings, profile, wanted.release, wanted.namespace, wanted.identity_name, group, unread)
    console.say(*values_of(subject))
    for gap in gaps(subject):
        console.err.write(f"gpu-provisioner values: {gap.what}\n    {gap.command}\n")
    console.err.write("\n".join(("", "What to do next, with the values in values.yaml:", *next_steps(subject), "")))
    return OK


async def _identified(arm: Azure, settings: Settings, group: str, name: str) -> tuple[Settings, str]:
    """The settings with the identity's ids, unless they are given; and why they could not be read, "" if they were."""
    if settings.client_id or settings.deployment_mode != "self-hosted":
        return settings, ""
    try:
        found = await arm.inspector.managed_identity(group, name)
    except CloudError as error:
        absent = f"there is no identity {name} in resource group {group}"
        return settings, absent if error.status == 404 else f"identity {name} of resource group {group}: {error}"
    tenant = settings.tenant_id or found.tenant_id
    return msgspec.structs.replace(settings, client_id=found.client_id, tenant_id=tenant), ""


def _unread(error: CloudError, settings: Settings) -> Refused:
    cause = f"cluster {settings.cluster_name} of resource group {settings.resource_group}: {error}"
    match error.status:
        case 404 if error.reason == "SubscriptionNotFound":
            return Refused(cause, "These are there for you: az account list -o table")
        case 404:
            return Refused(cause, f"These are there: az aks list --subscription {settings.subscription_id} -o table")
        case 401 | 403:
            return Refused(cause, "Ask for Reader on the cluster, or log in as somebody who has it.")
    return Refused(cause, "Run this again once Azure answers; gpu-provisioner check tells more.")
