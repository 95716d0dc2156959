"""What `values` writes for a cluster: the real Helm takes it, and nothing in it was guessed."""

import shlex
from typing import Any

import pytest
import yaml

from cloudprovider.azure.cluster_profile import ClusterProfile, ManagedIdentity, to_cluster_profile, to_managed_identity
from provisioner.cli.commands.chart_values import Subject, gaps, next_steps, values_of
from provisioner.settings import Settings, load
from tests.unit.charts.chart_values import environment, named, pod_of, render

Json = dict[str, Any]
SUBSCRIPTION = "00000000-0000-0000-0000-00000000000a"
CLIENT = "11111111-1111-1111-1111-111111111111"
WELL = ClusterProfile(
    location="westeurope",
    power_state="Running",
    kubernetes_version="1.34.1",
    tenant_id="22222222-2222-2222-2222-222222222222",
    oidc_issuer="https://westeurope.oic.prod-aks.azure.com/t/i/",
    workload_identity=True,
)


def settings(**env: str) -> Settings:
    needed = {"ARM_SUBSCRIPTION_ID": SUBSCRIPTION, "ARM_RESOURCE_GROUP": "rg", "AZURE_CLUSTER_NAME": "aks"}
    return load({}, {**needed, **env}, acts=False)


def subject(profile: ClusterProfile = WELL, release: str = "gpu-provisioner", **env: str) -> Subject:
    return Subject(
        settings(**env), profile, release, "gpus", "gpu-identity", settings(**env).resource_group, "it is not there"
    )


def installed(of: Subject) -> list[Json]:
    """What Helm makes of these values alone."""
    return render(yaml.safe_load("\n".join(values_of(of))), release=of.release)


# --- the values ------------------------------------------------------------------------------------------------------


def test_helm_takes_what_was_read() -> None:
    """Cluster, region, identity: the controller gets them all."""
    objects = installed(subject(AZURE_CLIENT_ID=CLIENT))
    found = environment(objects)
    assert {name: found[name] for name in ("ARM_SUBSCRIPTION_ID", "ARM_RESOURCE_GROUP", "AZURE_CLUSTER_NAME")} == {
        "ARM_SUBSCRIPTION_ID": SUBSCRIPTION,
        "ARM_RESOURCE_GROUP": "rg",
        "AZURE_CLUSTER_NAME": "aks",
    }
    assert (found["LOCATION"], found["AZURE_ENVIRONMENT"]) == ("westeurope", "AzurePublicCloud")
    annotations = named(objects, "ServiceAccount")["metadata"]["annotations"]
    assert annotations["azure.workload.identity/client-id"] == CLIENT
    assert annotations["azure.workload.identity/tenant-id"] == WELL.tenant_id
    assert "PodMonitor" not in {obj["kind"] for obj in objects}


def test_a_name_that_yaml_could_take_for_something_else_stays_a_name() -> None:
    """Groups and clusters may be called 1e3, or on."""
    found = environment(installed(subject(ARM_RESOURCE_GROUP="1e3", AZURE_CLUSTER_NAME="on")))
    assert (found["ARM_RESOURCE_GROUP"], found["AZURE_CLUSTER_NAME"]) == ("1e3", "on")


@pytest.mark.parametrize(
    ("cloud", "name"), [("usgov", "AzureUSGovernmentCloud"), ("china", "AzureChinaCloud"), ("", "AzurePublicCloud")]
)
def test_each_cloud_is_named_as_the_chart_names_it(cloud: str, name: str) -> None:
    """And the program reads that name."""
    found = environment(installed(subject(AZURE_ENVIRONMENT=cloud)))["AZURE_ENVIRONMENT"]
    assert found == name
    assert settings(AZURE_ENVIRONMENT=found).cloud == settings(AZURE_ENVIRONMENT=cloud).cloud


def test_without_workload_identity_the_nodes_identity_is_named() -> None:
    """Managed mode: no label, no annotation; a client id is the default chain's."""
    objects = installed(subject(DEPLOYMENT_MODE="managed", AZURE_CLIENT_ID=CLIENT))
    assert environment(objects)["AZURE_CLIENT_ID"] == CLIENT
    assert environment(objects)["DEPLOYMENT_MODE"] == "managed"
    assert "azure.workload.identity/use" not in pod_of(objects)["metadata"]["labels"]
    assert "AZURE_CLIENT_ID" not in environment(installed(subject(DEPLOYMENT_MODE="managed")))


def test_managed_prometheus_gets_a_monitor_that_it_reads() -> None:
    """Of its own group, where the cluster has it."""
    on = ClusterProfile(
        **{**{name: getattr(WELL, name) for name in WELL.__struct_fields__}, "managed_prometheus": True}
    )
    monitor = named(installed(subject(on)), "PodMonitor")
    assert monitor["apiVersion"] == "azmonitoring.coreos.com/v1"


def test_what_is_not_known_stands_there_empty() -> None:
    """With how to find it; the tenant is left out rather than guessed."""
    text = "\n".join(values_of(subject(ClusterProfile())))
    assert "# Not known: az identity create --resource-group rg --name gpu-identity --query clientId" in text
    values = yaml.safe_load(text)
    assert values["workloadIdentity"] == {"clientId": ""}
    assert "location" not in values["azure"]
    assert installed(subject(ClusterProfile()))


# --- what is missing, and what comes next ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "env", "what", "command"),
    [
        (
            {"oidc_issuer": ""},
            {},
            "no OIDC issuer,",
            "az aks update --resource-group rg --name aks --enable-oidc-issuer",
        ),
        ({"workload_identity": False}, {}, "no workload identity,", "--name aks --enable-workload-identity"),
        (
            {"oidc_issuer": "", "workload_identity": False},
            {},
            "no OIDC issuer and workload identity,",
            "--enable-oidc-issuer --enable-workload-identity",
        ),
        ({"power_state": "Stopped"}, {}, "is stopped", "az aks start --resource-group rg --name aks"),
        ({"location": ""}, {}, "region is not known", "az account list-locations"),
        ({}, {"AZURE_CLIENT_ID": ""}, "is not known: it is not there", "or give it as --client-id"),
    ],
)
def test_each_gap_has_its_command(profile: Json, env: dict[str, str], what: str, command: str) -> None:
    """That and no other."""
    fields = {name: getattr(WELL, name) for name in WELL.__struct_fields__}
    (gap,) = gaps(subject(ClusterProfile(**{**fields, **profile}), **{"AZURE_CLIENT_ID": CLIENT, **env}))
    assert what in gap.what
    assert command in gap.command


def test_where_nothing_is_missing_nothing_is_said() -> None:
    """Nor does managed mode need what only workload identity needs."""
    assert list(gaps(subject(AZURE_CLIENT_ID=CLIENT))) == []
    without = ClusterProfile(location="x", power_state="Running")
    assert list(gaps(subject(without, DEPLOYMENT_MODE="managed"))) == []


@pytest.mark.parametrize("release", ["gpu-provisioner", "ml", "my-gpu-provisioner"])
def test_the_service_account_is_the_one_that_helm_makes(release: str) -> None:
    """In the federated credential, whatever the release is called."""
    of = subject(release=release, AZURE_CLIENT_ID=CLIENT)
    account = named(installed(of), "ServiceAccount")["metadata"]["name"]
    steps = "\n".join(next_steps(of))
    assert f"--subject system:serviceaccount:gpus:{account}\n" in steps
    assert f"helm upgrade --install {release} charts/gpu-provisioner --namespace gpus " in steps


def test_the_next_commands_can_be_copied() -> None:
    """A shell splits them into what was meant; only comments and folded lines stand between them."""
    of = subject(AZURE_CLIENT_ID=CLIENT, ARM_RESOURCE_GROUP="a(b)", AZURE_CLUSTER_NAME="aks")
    commands = "\n".join(next_steps(of)).replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in commands]
    assert [words[0] for words in split if words] == ["az", "sed", "az", "az", "helm", "helm", "helm"]
    credential, _, _, assignment, *_ = (words for words in split if words)
    assert credential[credential.index("--issuer") + 1] == WELL.oidc_issuer
    assert credential[credential.index("--resource-group") + 1] == "a(b)"
    assert assignment[assignment.index("--scope") + 1] == (
        f"/subscriptions/{SUBSCRIPTION}/resourceGroups/a(b)/providers/Microsoft.ContainerService/managedClusters/aks"
    )


# --- what Azure says -------------------------------------------------------------------------------------------------


def test_a_profile_is_read_from_arms_body() -> None:
    """Names as in the REST reference; the region in the form that ARM's own paths have."""
    body = {
        "location": "West Europe",
        "identity": {"type": "SystemAssigned", "tenantId": WELL.tenant_id},
        "properties": {
            "powerState": {"code": "Running"},
            "kubernetesVersion": "1.34",
            "currentKubernetesVersion": "1.34.1",
            "oidcIssuerProfile": {"enabled": True, "issuerURL": WELL.oidc_issuer},
            "securityProfile": {"workloadIdentity": {"enabled": True}},
            "azureMonitorProfile": {"metrics": {"enabled": False}},
        },
    }
    assert to_cluster_profile(body) == WELL


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"properties": None, "location": 5, "identity": []},
        {"properties": {"oidcIssuerProfile": {"enabled": False, "issuerURL": "https://x"}, "securityProfile": {}}},
    ],
)
def test_what_is_not_said_is_not_there(body: Json) -> None:
    """An address that is no longer issued from counts for nothing."""
    assert to_cluster_profile(body) == ClusterProfile()


def test_an_identity_is_read_from_arms_body() -> None:
    """The two ids that a token needs; nothing where they are not said."""
    body = {"name": "x", "properties": {"clientId": CLIENT, "tenantId": WELL.tenant_id, "principalId": "p"}}
    assert to_managed_identity(body) == ManagedIdentity(client_id=CLIENT, tenant_id=WELL.tenant_id)
    assert to_managed_identity({"properties": []}) == ManagedIdentity()
