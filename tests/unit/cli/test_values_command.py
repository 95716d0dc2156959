"""The values that `values` writes render with Helm, and unknown values are empty."""

import shlex
from typing import Any

import pytest
import yaml

from cloudprovider.azure.cluster_profile import ClusterProfile, ManagedIdentity, to_cluster_profile, to_managed_identity
from provisioner.cli.commands.chart_values import Subject, gaps, next_steps, values_of
from provisioner.settings import Settings, load
from tests.unit.charts.chart_values import IMAGE, environment, named, pod_of, render

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


def subject(
    profile: ClusterProfile = WELL, release: str = "gpu-provisioner", *, image: str = IMAGE, **env: str
) -> Subject:
    names = release, "gpus", "gpu-identity", settings(**env).resource_group
    return Subject(settings(**env), profile, *names, image=image, unread="it is not there")


def installed(of: Subject) -> list[Json]:
    """The objects that Helm renders from these values."""
    return render(yaml.safe_load("\n".join(values_of(of))), release=of.release)


# --- the values ------------------------------------------------------------------------------------------------------


def test_the_values_configure_the_controller() -> None:
    """Cluster, location and identity."""
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


def test_a_name_that_looks_like_another_yaml_type_stays_a_string() -> None:
    found = environment(installed(subject(ARM_RESOURCE_GROUP="1e3", AZURE_CLUSTER_NAME="on")))
    assert (found["ARM_RESOURCE_GROUP"], found["AZURE_CLUSTER_NAME"]) == ("1e3", "on")


@pytest.mark.parametrize(
    ("cloud", "name"), [("usgov", "AzureUSGovernmentCloud"), ("china", "AzureChinaCloud"), ("", "AzurePublicCloud")]
)
def test_clouds_have_the_names_of_the_chart(cloud: str, name: str) -> None:
    """The program accepts the same name."""
    found = environment(installed(subject(AZURE_ENVIRONMENT=cloud)))["AZURE_ENVIRONMENT"]
    assert found == name
    assert settings(AZURE_ENVIRONMENT=found).cloud == settings(AZURE_ENVIRONMENT=cloud).cloud


def test_managed_mode_uses_the_identity_of_the_nodes() -> None:
    """Without the label and annotations of workload identity."""
    objects = installed(subject(DEPLOYMENT_MODE="managed", AZURE_CLIENT_ID=CLIENT))
    assert environment(objects)["AZURE_CLIENT_ID"] == CLIENT
    assert environment(objects)["DEPLOYMENT_MODE"] == "managed"
    assert "azure.workload.identity/use" not in pod_of(objects)["metadata"]["labels"]
    assert "AZURE_CLIENT_ID" not in environment(installed(subject(DEPLOYMENT_MODE="managed")))


def test_managed_prometheus_gets_a_monitor_of_its_api_group() -> None:
    on = ClusterProfile(
        **{**{name: getattr(WELL, name) for name in WELL.__struct_fields__}, "managed_prometheus": True}
    )
    monitor = named(installed(subject(on)), "PodMonitor")
    assert monitor["apiVersion"] == "azmonitoring.coreos.com/v1"


def test_unknown_values_are_empty() -> None:
    """With a comment on how to find them; the tenant is omitted."""
    text = "\n".join(values_of(subject(ClusterProfile(), image="")))
    assert "# Required: az acr build --registry REGISTRY --image gpu-provisioner:" in text
    assert "# Unknown: az identity create --resource-group rg --name gpu-identity --query clientId" in text
    values = yaml.safe_load(text)
    assert values["workloadIdentity"] == {"clientId": ""}
    assert "location" not in values["azure"]
    assert values["controller"] == {"image": {"repository": ""}}
    assert installed(subject(ClusterProfile()))


# --- gaps and next steps ---------------------------------------------------------------------------------------------


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
        ({}, {"image": ""}, "the image of the controller is unknown", "az acr build --registry REGISTRY --image gpu-"),
        (
            {"location": ""},
            {},
            "region of the cluster is unknown",
            "--query location --output tsv    # then set --location",
        ),
        ({}, {"AZURE_CLIENT_ID": ""}, "is unknown: it is not there", "or set --client-id"),
    ],
)
def test_each_gap_has_a_command(profile: Json, env: dict[str, str], what: str, command: str) -> None:
    fields = {name: getattr(WELL, name) for name in WELL.__struct_fields__}
    (gap,) = gaps(subject(ClusterProfile(**{**fields, **profile}), **{"AZURE_CLIENT_ID": CLIENT, **env}))
    assert what in gap.what
    assert command in gap.command


def test_a_complete_cluster_has_no_gaps() -> None:
    """Managed mode does not require workload identity."""
    assert list(gaps(subject(AZURE_CLIENT_ID=CLIENT))) == []
    fields = {name: getattr(WELL, name) for name in WELL.__struct_fields__} | {"location": ""}
    assert list(gaps(subject(ClusterProfile(**fields), AZURE_CLIENT_ID=CLIENT, LOCATION="westeurope"))) == []
    without = ClusterProfile(location="x", power_state="Running")
    assert list(gaps(subject(without, DEPLOYMENT_MODE="managed"))) == []


@pytest.mark.parametrize("release", ["gpu-provisioner", "ml", "my-gpu-provisioner"])
def test_the_federated_credential_names_the_service_account_of_the_chart(release: str) -> None:
    """For every release name."""
    of = subject(release=release, AZURE_CLIENT_ID=CLIENT)
    account = named(installed(of), "ServiceAccount")["metadata"]["name"]
    steps = "\n".join(next_steps(of))
    assert f"--subject system:serviceaccount:gpus:{account}\n" in steps
    assert f"helm upgrade --install {release} charts/gpu-provisioner --namespace gpus " in steps


def test_the_next_commands_are_valid_shell() -> None:
    """Only comments and continued lines are between them."""
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


# --- responses of Azure ----------------------------------------------------------------------------------------------


def test_a_cluster_profile_is_parsed() -> None:
    """Field names of the REST reference; the location in normalized form."""
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
def test_missing_fields_have_defaults(body: Json) -> None:
    """The URL of a disabled issuer is ignored."""
    assert to_cluster_profile(body) == ClusterProfile()


def test_a_managed_identity_is_parsed() -> None:
    body = {"name": "x", "properties": {"clientId": CLIENT, "tenantId": WELL.tenant_id, "principalId": "p"}}
    assert to_managed_identity(body) == ManagedIdentity(client_id=CLIENT, tenant_id=WELL.tenant_id)
    assert to_managed_identity({"properties": []}) == ManagedIdentity()
