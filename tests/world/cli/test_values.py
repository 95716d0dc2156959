"""`gpu-provisioner values` against a simulated Azure: what it reads, and what it says when it may not."""

import json
from typing import Any

import pytest
import yaml

from provisioner.cli.commands.refusal import Refused
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.commands import WHO, values
from tests.world.harness import Sim, simulated

CLIENT = "11111111-1111-1111-1111-111111111111"
IMAGE = ("--image", "registry.example/ours")
IDENTITY = ("--identity-name", "gpu-identity", *IMAGE)


def changed(sim: Sim, **settings: Any) -> None:
    """The cluster is another from now on."""
    sim.cloud.configure(**settings)


@simulated()
async def test_the_values_are_what_azure_says(sim: Sim) -> None:
    """One GET of the cluster, nothing written; with a role that may read the cluster and nothing else."""
    changed(sim, actions=frozenset({"Microsoft.ContainerService/managedClusters/read"}), managed_prometheus=True)
    ended = await values(sim, *IMAGE, AZURE_CLIENT_ID=CLIENT)
    azure = sim.cloud.settings
    assert ended.code == 0
    written = yaml.safe_load(ended.out)
    assert written["azure"] == {
        "subscriptionId": azure.subscription,
        "resourceGroup": azure.resource_group,
        "clusterName": azure.cluster,
        "location": azure.location,
    }
    assert written["workloadIdentity"] == {"clientId": CLIENT, "tenantId": azure.tenant}
    assert written["podMonitor"] == {"enabled": True}
    assert "gpu-provisioner values: " not in ended.err
    assert f"--issuer {azure.issuer} " in ended.err
    calls = sim.audit_log.calls(who=WHO)
    assert [(call.system, call.verb, call.target.kind) for call in calls] == [("arm", "GET", "cluster")]


@simulated()
async def test_values_in_json(sim: Sim) -> None:
    """The same values without the comments; a table has no place for them."""
    written = await values(sim, *IMAGE, AZURE_CLIENT_ID=CLIENT)
    as_json = await values(sim, *IMAGE, "-o", "json", AZURE_CLIENT_ID=CLIENT)
    assert json.loads(as_json.out) == yaml.safe_load(written.out)
    assert as_json.err == written.err


@simulated()
async def test_a_cluster_that_issues_no_tokens_is_reported(sim: Sim) -> None:
    """What is missing, and the one command for it; the values are written all the same, and the command fails."""
    changed(sim, oidc_issuer=False, workload_identity=False)
    ended = await values(sim)
    assert ended.code == 3
    assert yaml.safe_load(ended.out)["workloadIdentity"]["clientId"] == ""
    assert (
        "gpu-provisioner values: the cluster has no OIDC issuer and workload identity, which its Pods need to get"
        " a token\n    az aks update --resource-group rg --name aks --enable-oidc-issuer"
        " --enable-workload-identity\n"
    ) in ended.err
    assert "unknown: identity gpu-provisioner not found in resource group rg\n    az identity create" in ended.err
    assert ended.err.endswith("Run the command below each cause, then this command again.\n")
    assert "Next steps" not in ended.err, "they need what is missing"


@simulated()
async def test_the_identitys_client_id_is_read_by_its_name(sim: Sim) -> None:
    """As the predecessor's script did; where it may not be read the rest is written, and the cause is reported."""
    changed(sim, identities={"gpu-identity": CLIENT})
    ended = await values(sim, *IDENTITY)
    assert yaml.safe_load(ended.out)["workloadIdentity"] == {
        "clientId": CLIENT,
        "tenantId": sim.cloud.settings.tenant,
    }
    assert f"--assignee {CLIENT} " in ended.err
    assert "gpu-provisioner values: " not in ended.err
    managed = await values(sim, *IDENTITY, DEPLOYMENT_MODE="managed")
    assert CLIENT not in managed.out
    elsewhere = await values(sim, *IDENTITY, "--identity-resource-group", "other")
    assert "identity gpu-identity not found in resource group other" in elsewhere.err
    sim.cloud.faults.append(Fault(verb="IDENTITY", times=ALWAYS, answer=FORBIDDEN))
    unread = await values(sim, *IDENTITY)
    assert (unread.code, yaml.safe_load(unread.out)["workloadIdentity"]["clientId"]) == (3, "")
    assert "identity gpu-identity of resource group rg: AuthorizationFailed" in unread.err


FORBIDDEN = errors.gateway(403, "AuthorizationFailed", "The client does not have authorization to perform action.")


@pytest.mark.parametrize(
    ("env", "fault", "cause", "remedy"),
    [
        ({"AZURE_CLUSTER_NAME": "nope"}, None, "cluster nope of resource group rg: ClusterNotFound", "az aks list"),
        ({"ARM_SUBSCRIPTION_ID": "nope"}, None, "SubscriptionNotFound", "az account list -o table"),
        ({}, {"answer": FORBIDDEN}, "AuthorizationFailed", "Request the role Reader on the cluster"),
        ({}, {"answer": errors.gateway(503, "ServerTimeout", "Try again.")}, "ServerTimeout", "Run the command again"),
    ],
    ids=["cluster", "subscription", "forbidden", "passing"],
)
@simulated()
async def test_a_cluster_that_cannot_be_read_is_reported(
    sim: Sim, env: dict[str, str], fault: dict[str, Any] | None, cause: str, remedy: str
) -> None:
    """The cause in Azure's words, a remedy that fits it, exit code 1, and no values."""
    if fault is not None:
        sim.cloud.faults.append(Fault(verb="CLUSTER", times=ALWAYS, **fault))
    with pytest.raises(Refused) as refused:
        await values(sim, **env)
    assert cause in refused.value.cause
    assert remedy in refused.value.remedy
    assert refused.value.code == 1
