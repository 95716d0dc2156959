"""Helm values for an existing cluster, missing features, and the commands to run next, as text.

The values contain only what was read or given. An unknown value is empty, with the command that finds it in a comment.
All strings are quoted. Commands can be copied unchanged, except for words in capitals.

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
from provisioner.version import own_version

CHART = "gpu-provisioner"
ROLE = "GPU provisioner"
ENVIRONMENTS = ("AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud")
BUILD = f"az acr build --registry REGISTRY --image {CHART}:{own_version()} ."
FOLDED = " \\\n      "


class Subject(NamedTuple):
    """The cluster, and the names of the release, its namespace, the identity and its resource group.

    `image`: the repository of the controller's image, without a tag. `unread`: why the client ID of the identity could
    not be read.
    """

    settings: Settings
    profile: ClusterProfile
    release: str
    namespace: str
    identity: str
    identity_group: str
    image: str = ""
    unread: str = ""

    @property
    def self_hosted(self) -> bool:
        return self.settings.deployment_mode == "self-hosted"

    @property
    def service_account(self) -> str:
        """The name that the chart gives it."""
        return self.release if CHART in self.release else f"{self.release}-{CHART}"

    @property
    def cluster_id(self) -> str:
        return (
            f"/subscriptions/{self.settings.subscription_id}/resourceGroups/{self.settings.resource_group}"
            f"/providers/Microsoft.ContainerService/managedClusters/{self.settings.cluster_name}"
        )


class Gap(NamedTuple):
    """A missing feature or an unknown value, and the command that resolves it."""

    what: str
    command: str


def values_of(subject: Subject) -> Iterator[str]:
    """The lines of the values file."""
    settings, profile = subject.settings, subject.profile
    version = f"Kubernetes {profile.kubernetes_version}" if profile.kubernetes_version else "of an unknown version"
    yield f"# Values of the chart {CHART} for the AKS cluster {settings.cluster_name} ({version}), written by"
    yield "# gpu-provisioner values. Other values have the defaults of the chart."
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
    yield from _controller(subject)
    yield ""
    yield from _workload_identity(subject) if subject.self_hosted else _managed()
    if profile.managed_prometheus:
        yield ""
        yield "# Azure managed Prometheus is enabled in this cluster; it reads monitors of its own API group."
        yield "podMonitor:"
        yield "  enabled: true"
        yield "metrics:"
        yield "  monitor:"
        yield '    apiGroup: "azmonitoring.coreos.com"'


def gaps(subject: Subject) -> Iterator[Gap]:
    """Missing features of the cluster, and unknown values."""
    settings, profile = subject.settings, subject.profile
    where = f"--resource-group {shlex.quote(settings.resource_group)} --name {shlex.quote(settings.cluster_name)}"
    if profile.power_state == "Stopped":
        yield Gap("the cluster is stopped", f"az aks start {where}")
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
                f"the cluster has no {names}, which its Pods need to get a token", f"az aks update {where} {flags}"
            )
        if not settings.client_id:
            yield Gap(
                f"the client ID of the identity is unknown: {subject.unread}",
                f"{_identity(subject)}    # then run this command again, or set --client-id",
            )
    if not subject.image:
        yield Gap(
            "the image of the controller is unknown: no image is published, and the chart has no default",
            f"{BUILD}    # then set --image REGISTRY.azurecr.io/{CHART}",
        )
    if not (profile.location or settings.location):
        finds = f"az aks show {where} --query location --output tsv"
        yield Gap("the region of the cluster is unknown", f"{finds}    # then set --location")


def next_steps(subject: Subject) -> Iterator[str]:
    """The commands to run next if there are no gaps, in order, each with a comment."""
    settings, profile = subject.settings, subject.profile
    group, release, namespace = map(shlex.quote, (subject.identity_group, subject.release, subject.namespace))
    if subject.self_hosted:
        yield "  # let the service account use the identity"
        yield FOLDED.join(
            (
                f"  az identity federated-credential create --resource-group {group} --name {release}",
                f"--identity-name {shlex.quote(subject.identity)} --issuer {shlex.quote(profile.oidc_issuer)}",
                f"--subject system:serviceaccount:{namespace}:{shlex.quote(subject.service_account)}",
            )
        )
    yield "  # grant the identity the permissions of the controller, in this cluster only"
    yield f"  sed s/SUBSCRIPTION_ID/{shlex.quote(settings.subscription_id)}/ charts/{CHART}/azure-role.json > role.json"
    yield "  az role definition create --role-definition role.json"
    yield FOLDED.join(
        (
            f"  az role assignment create --assignee {settings.client_id or 'CLIENT_ID'} --role {shlex.quote(ROLE)}",
            f"--scope {shlex.quote(subject.cluster_id)}",
        )
    )
    yield "  # install the CRDs and the controller, and verify them"
    yield f"  helm upgrade --install {CHART}-crd charts/{CHART}-crd --namespace {namespace} --create-namespace"
    yield f"  helm upgrade --install {release} charts/{CHART} --namespace {namespace} --values values.yaml"
    yield f"  helm test {release} --namespace {namespace}"


def _workload_identity(subject: Subject) -> Iterator[str]:
    settings = subject.settings
    yield "workloadIdentity:"
    if not settings.client_id:
        yield f"  # Unknown: {_identity(subject)}"
    yield f"  clientId: {_quoted(settings.client_id)}"
    if tenant := settings.tenant_id or subject.profile.tenant_id:
        yield f"  tenantId: {_quoted(tenant)}"


def _managed() -> Iterator[str]:
    yield "# The default credential chain of azure-identity, for example the identity of the node."
    yield 'deploymentMode: "managed"'
    yield "workloadIdentity:"
    yield "  enabled: false"


def _controller(subject: Subject) -> Iterator[str]:
    yield "controller:"
    yield "  image:"
    if not subject.image:
        yield f"    # Required: {BUILD}"
    yield f"    repository: {_quoted(subject.image)}"
    if subject.settings.client_id and not subject.self_hosted:
        yield "  extraEnv:"
        yield f"    AZURE_CLIENT_ID: {_quoted(subject.settings.client_id)}"


def _identity(subject: Subject) -> str:
    """The command that creates the identity or finds the existing one."""
    group, name = shlex.quote(subject.identity_group), shlex.quote(subject.identity)
    return f"az identity create --resource-group {group} --name {name} --query clientId --output tsv"


def _quoted(text: str) -> str:
    """A JSON string, which is a YAML string too."""
    return json.dumps(text, ensure_ascii=False)
