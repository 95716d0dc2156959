"""What the chart is told about an existing cluster, and what is left to do for it: pure, words only.

The YAML holds what was read or given and nothing that was guessed; what is not known stands there empty, with
how to find it. Every text is quoted, so that none can be taken for something else. Each command can be copied as it is,
but for words in capitals.

Source: docs/references/agent-pools.md#identity-and-clouds, docs/references/monitoring.md#tools,
charts/gpu-provisioner/azure-role.json.
"""

import json
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from cloudprovider.azure.cluster_profile import ClusterProfile
from provisioner.settings import Settings
from provisioner.settings.clouds import find_cloud

CHART = "gpu-provisioner"
ROLE = "GPU provisioner"
ENVIRONMENTS = ("AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud")
FOLDED = " \\\n      "


class Subject(NamedTuple):
    """For which cluster, and what people call things: the release, its namespace, the identity and its group.

    `unread`: why the identity's client id could not be read.
    """

    settings: Settings
    profile: ClusterProfile
    release: str
    namespace: str
    identity: str
    identity_group: str
    unread: str = ""

    @property
    def self_hosted(self) -> bool:
        return self.settings.deployment_mode == "self-hosted"

    @property
    def service_account(self) -> str:
        """As the chart names it."""
        return self.release if CHART in self.release else f"{self.release}-{CHART}"

    @property
    def cluster_id(self) -> str:
        return (
            f"/subscriptions/{self.settings.subscription_id}/resourceGroups/{self.settings.resource_group}"
            f"/providers/Microsoft.ContainerService/managedClusters/{self.settings.cluster_name}"
        )


class Gap(NamedTuple):
    """Something that is missing or not known, and the command that helps."""

    what: str
    command: str


def values_of(subject: Subject) -> Iterator[str]:
    """The lines of a values file."""
    settings, profile = subject.settings, subject.profile
    version = f"Kubernetes {profile.kubernetes_version}" if profile.kubernetes_version else "its version is not known"
    yield f"# Values of the chart {CHART} for the AKS cluster {settings.cluster_name} ({version}), written by"
    yield "# gpu-provisioner values. What is not here has the chart's default."
    yield "azure:"
    yield f"  subscriptionId: {_quoted(settings.subscription_id)}"
    yield f"  resourceGroup: {_quoted(settings.resource_group)}"
    yield f"  clusterName: {_quoted(settings.cluster_name)}"
    if profile.location or settings.location:
        yield f"  location: {_quoted(profile.location or settings.location)}"
    environment = next(name for name in ENVIRONMENTS if find_cloud(name) is find_cloud(settings.cloud))
    if environment != ENVIRONMENTS[0]:
        yield f"  environment: {_quoted(environment)}"
    yield ""
    yield from _workload_identity(subject) if subject.self_hosted else _managed(settings)
    if profile.managed_prometheus:
        yield ""
        yield "# Azure managed Prometheus is on in this cluster, and reads monitors of its own group."
        yield "podMonitor:"
        yield "  enabled: true"
        yield "metrics:"
        yield "  monitor:"
        yield '    apiGroup: "azmonitoring.coreos.com"'


def gaps(subject: Subject) -> Iterator[Gap]:
    """What stands in the way, and what could not be known."""
    settings, profile = subject.settings, subject.profile
    where = f"--resource-group {shlex.quote(settings.resource_group)} --name {shlex.quote(settings.cluster_name)}"
    if profile.power_state == "Stopped":
        yield Gap("the cluster is stopped: no Pod runs in it", f"az aks start {where}")
    if subject.self_hosted:
        off = [
            (name, flag)
            for name, flag, on in (
                ("OIDC issuer", "--enable-oidc-issuer", bool(profile.oidc_issuer)),
                ("workload identity", "--enable-workload-identity", profile.workload_identity),
            )
            if not on
        ]
        if off:
            names, flags = (" ".join(words) for words in ([" and ".join(n for n, _ in off)], [f for _, f in off]))
            yield Gap(
                f"the cluster has no {names}, without which its Pods get no token", f"az aks update {where} {flags}"
            )
        if not settings.client_id:
            yield Gap(
                f"the client id of the identity is not known: {subject.unread}",
                f"{_identity(subject)}    # and run this again, or give it as --client-id",
            )
    if not profile.location:
        yield Gap("the cluster's region is not known", "az account list-locations --output table")


def next_steps(subject: Subject) -> Iterator[str]:
    """What to type next, in order, with a comment on each."""
    settings, profile = subject.settings, subject.profile
    group, release, namespace = map(shlex.quote, (subject.identity_group, subject.release, subject.namespace))
    if subject.self_hosted:
        issuer = shlex.quote(profile.oidc_issuer) if profile.oidc_issuer else "OIDC_ISSUER"
        yield "  # the service account's token stands for the identity"
        yield FOLDED.join(
            (
                f"  az identity federated-credential create --resource-group {group} --name {release}",
                f"--identity-name {shlex.quote(subject.identity)} --issuer {issuer}",
                f"--subject system:serviceaccount:{namespace}:{shlex.quote(subject.service_account)}",
            )
        )
    yield "  # the identity may do what the controller does, in this cluster alone"
    yield f"  sed s/SUBSCRIPTION_ID/{shlex.quote(settings.subscription_id)}/ charts/{CHART}/azure-role.json > role.json"
    yield "  az role definition create --role-definition role.json"
    yield FOLDED.join(
        (
            f"  az role assignment create --assignee {settings.client_id or 'CLIENT_ID'} --role {shlex.quote(ROLE)}",
            f"--scope {shlex.quote(subject.cluster_id)}",
        )
    )
    yield "  # definitions and controller, and whether all is well"
    yield f"  helm upgrade --install {CHART}-crd charts/{CHART}-crd --namespace {namespace} --create-namespace"
    yield f"  helm upgrade --install {release} charts/{CHART} --namespace {namespace} --values values.yaml"
    yield f"  helm test {release} --namespace {namespace}"


def _workload_identity(subject: Subject) -> Iterator[str]:
    settings = subject.settings
    yield "workloadIdentity:"
    if not settings.client_id:
        yield f"  # Not known: {_identity(subject)}"
    yield f"  clientId: {_quoted(settings.client_id)}"
    if tenant := settings.tenant_id or subject.profile.tenant_id:
        yield f"  tenantId: {_quoted(tenant)}"


def _managed(settings: Settings) -> Iterator[str]:
    yield "# Whatever azure-identity's default chain finds: the identity of the node, say."
    yield 'deploymentMode: "managed"'
    yield "workloadIdentity:"
    yield "  enabled: false"
    if settings.client_id:
        yield "controller:"
        yield "  extraEnv:"
        yield f"    AZURE_CLIENT_ID: {_quoted(settings.client_id)}"


def _identity(subject: Subject) -> str:
    """Makes the identity, or finds the one of that name."""
    group, name = shlex.quote(subject.identity_group), shlex.quote(subject.identity)
    return f"az identity create --resource-group {group} --name {name} --query clientId --output tsv"


def _quoted(text: str) -> str:
    """JSON's strings are YAML's."""
    return json.dumps(text, ensure_ascii=False)
