"""`gpu-provisioner values` of the installed program over sockets; the real Helm reads its output."""

import asyncio
from pathlib import Path

import helm_python
import pytest
import yaml

from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.stories import run_by
from tests.unit.charts.chart_values import IMAGE, environment, notes, render

from .program import ROOT
from .program import environment as of_a_user
from .site import Site, ran, run_story

pytestmark = pytest.mark.matrix(quick=0)

CLIENT = "77777777-2222-3333-4444-555555555555"
FORBIDDEN = errors.gateway(403, "AuthorizationFailed", "The client does not have authorization to perform action.")


@run_by(run_story)
async def test_the_output_is_a_values_file(site: Site) -> None:
    """Helm accepts the output as a values file, and the rendered controller has the settings of this cluster."""
    env = site.env(AZURE_CLIENT_ID="", AZURE_TENANT_ID="", KUBECONFIG="/nowhere")
    ended = await ran("values", "--client-id", CLIENT, "--release", "ml", "--image", IMAGE, env=env)
    assert ended.code == 0
    values = yaml.safe_load(ended.out)
    variables = environment(render(values, release="ml"))
    azure = site.world.settings.azure
    assert (variables["AZURE_CLUSTER_NAME"], variables["LOCATION"]) == (azure.cluster, azure.location)
    assert "clientId is empty" not in notes(values)
    assert f"--assignee {CLIENT} --role 'GPU provisioner'" in ended.err
    assert "system:serviceaccount:gpu-provisioner:ml-gpu-provisioner" in ended.err
    assert not [call for call in site.world.audit_log.calls() if call.is_write or call.system == "kube"]
    folder = next(word for word in ended.err.split() if word.endswith("azure-role.json"))
    assert (ROOT / folder).is_file()
    with helm_python.Chart.load(str(ROOT / "charts" / "gpu-provisioner")) as chart:
        chart.validate_schema(values)


@run_by(run_story)
async def test_each_failure_has_a_cause_and_a_remedy(site: Site) -> None:
    """A failure writes nothing to stdout and exits with 1, or with 2 for invalid settings."""
    missing = await ran("values", "--cluster-name", "nope", env=site.env())
    assert (missing.code, missing.out) == (1, "")
    cause, remedy = missing.err.splitlines()
    assert cause.startswith("gpu-provisioner values: cluster nope of resource group rg: ClusterNotFound: ")
    assert (
        remedy
        == f"    az aks list --subscription {site.world.settings.azure.subscription} -o table lists the clusters."
    )

    unset = await ran("values", env=site.env(AZURE_CLUSTER_NAME="", ARM_SUBSCRIPTION_ID=""))
    assert (unset.code, unset.out) == (2, "")
    assert "2 settings are invalid:" in unset.err

    bogus = await ran("values", "--bogus", env=site.env())
    assert bogus.code == 2
    assert "unrecognized arguments: --bogus" in bogus.err

    uncertified = await ran("values", env=site.env(SSL_CERT_FILE="/nowhere"))
    assert (uncertified.code, uncertified.out) == (1, "")
    assert "failed to connect to Azure" in uncertified.err

    site.world.cloud.faults.append(Fault(verb="CLUSTER", times=ALWAYS, answer=FORBIDDEN))
    forbidden = await ran("values", env=site.env())
    assert (forbidden.code, forbidden.out) == (1, "")
    assert "AuthorizationFailed" in forbidden.err
    assert forbidden.err.splitlines()[-1] == ("    Request the role Reader on the cluster, or use another login.")


async def _nobody(home: Path) -> None:
    cluster = {"ARM_SUBSCRIPTION_ID": CLIENT, "ARM_RESOURCE_GROUP": "rg", "AZURE_CLUSTER_NAME": "aks"}
    # No az on the PATH; on a machine in Azure, its managed identity is not available either.
    cluster["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = "http://127.0.0.1:9"
    ended = await ran("values", env=of_a_user(home, path=str(home), **cluster))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "gpu-provisioner values: not logged in to Azure",
        "    Run az login, with --tenant if you have several tenants.",
    ]


def test_missing_credentials(tmp_path: Path) -> None:
    """Without credentials there is one line with the cause and one with the remedy, not one for each credential
    type.
    """
    asyncio.run(_nobody(tmp_path))
