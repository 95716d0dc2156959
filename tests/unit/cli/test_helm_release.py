"""The settings that commands read from the Helm release: which release, which settings, and why one is missing."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from provisioner.api.field_error import FieldError
from provisioner.cli.command import Invocation
from provisioner.cli.commands import helm_release
from provisioner.cli.commands.helm_release import FLAGS, ReleaseSettings, flags_of, missing, read
from provisioner.cli.definitions import COMMANDS
from provisioner.cli.parser import parse
from provisioner.settings import SettingsError, load
from tests.unit.runtime.kube_server import Answer, kube_client, kube_server, listing, obj, status

Json = dict[str, Any]
NAMED = {"ARM_RESOURCE_GROUP": "rg-1", "AZURE_CLUSTER_NAME": "aks-1"}
AZURE = {"ARM_SUBSCRIPTION_ID": "sub-1", **NAMED}
ALL = "/apis/apps/v1/deployments"
SERVER = "https://aks:443 (context prod)"
FORBIDDEN = status(403, "Forbidden", 'deployments.apps is forbidden: User "jane" cannot list')


def deployment(name: str = "gpu-provisioner", chart: str = "gpu-provisioner-0.1.0", **env: Any) -> Json:
    """A Deployment of this chart; a value that is no text is that of `valueFrom`."""
    variables = [{"name": k, **({"value": v} if isinstance(v, str) else {"valueFrom": v})} for k, v in env.items()]
    sidecar = {"name": "proxy", "env": [{"name": "ARM_SUBSCRIPTION_ID", "value": "other"}]}
    spec = {"template": {"spec": {"containers": [sidecar, {"name": "controller", "env": variables}]}}}
    return obj("Deployment", name, metadata={"namespace": "gpus", "labels": {"helm.sh/chart": chart}}, spec=spec)


def deployments(*items: Json) -> Answer:
    return listing("Deployment", [*items], "1")


def at(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


class Case(NamedTuple):
    """`answers` of the API server, and the paths of the requests; `why` and `remedy` begin so."""

    answers: Sequence[Answer]
    paths: Sequence[str] = (ALL,)
    variables: Mapping[str, str] = {}
    why: str = ""
    remedy: str = ""
    namespace: str = ""


CASES = {
    "one release": Case([deployments(deployment(**AZURE))], variables=AZURE),
    "the release of Azure/gpu-provisioner": Case(
        [deployments(deployment(chart="gpu-provisioner-0.3.5", **AZURE))], variables=AZURE
    ),
    "other charts": Case(
        [deployments(deployment(chart="gpu-provisioner-crd-0.1.0", **AZURE), deployment(chart="kaito-0.1.0", **AZURE))],
        why=f"there is no Helm release of gpu-provisioner in {SERVER}",
        remedy=f"Select the cluster with --context or --kubeconfig, or give {FLAGS}.",
    ),
    "a value from a Secret": Case(
        [deployments(deployment(ARM_SUBSCRIPTION_ID={"secretKeyRef": {"name": "s", "key": "k"}}, **NAMED))],
        variables=NAMED,
        why="Deployment gpus/gpu-provisioner has no plain value for it",
        remedy=f"Give {FLAGS}.",
    ),
    "two releases": Case(
        [deployments(deployment("b", **AZURE), deployment("a", **AZURE))],
        why="there are 2 Helm releases of gpu-provisioner: gpus/a and gpus/b",
        remedy=f"Name its namespace with --release-namespace, or give {FLAGS}.",
    ),
    "a namespace is named": Case([deployments(deployment(**AZURE))], [at("gpus")], AZURE, namespace="gpus"),
    "a namespace without a release": Case(
        [deployments()],
        [at("gpus")],
        why=f"there is no Helm release of gpu-provisioner in namespace gpus of {SERVER}",
        remedy="Select the cluster",
        namespace="gpus",
    ),
    "only the documented namespace may be read": Case(
        [FORBIDDEN, deployments(deployment(**AZURE))], [ALL, at("gpu-provisioner")], AZURE
    ),
    "no namespace may be read": Case(
        [FORBIDDEN, FORBIDDEN],
        [ALL, at("gpu-provisioner")],
        why="the Helm release cannot be read: 40",
        remedy="Request the permission to list deployments in the namespace of the release, which --release-namespace",
    ),
    "the documented namespace is empty": Case(
        [FORBIDDEN, deployments()],
        [ALL, at("gpu-provisioner")],
        why="the Helm release cannot be read: 40",
        remedy="Request the permission to list deployments",
    ),
    "the named namespace may not be read": Case(
        [FORBIDDEN],
        [at("gpus")],
        why="the Helm release cannot be read: 40",
        remedy="Request the permission",
        namespace="gpus",
    ),
    "no credentials": Case(
        [status(401, "Unauthorized")],
        why="the Helm release cannot be read: 40",
        remedy="Renew the credentials in the kubeconfig until kubectl get nodeclaims succeeds, or give --subscription",
    ),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_release_is_read(case: Case) -> None:
    """The variables of the controller's container, or the reason and a remedy that goes on without the release."""
    async with kube_server() as server, kube_client(server) as kube:
        kube.server = SERVER
        server.then(*case.answers)
        found = await read(kube, case.namespace)
    assert [seen.path for seen in server.seen] == [*case.paths]
    assert found.variables == case.variables
    assert found.why.startswith(case.why)
    assert found.remedy.startswith(case.remedy)


PRECEDENCE = {
    "flag": ({"cluster-name": "flag"}, {"AZURE_CLUSTER_NAME": "env"}, {"cluster-name": "file"}, "flag"),
    "environment": ({}, {"AZURE_CLUSTER_NAME": "env"}, {"cluster-name": "file"}, "env"),
    "its other name": ({}, {"CLUSTER_NAME": "env"}, {"cluster-name": "file"}, "env"),
    "file": ({}, {}, {"cluster-name": "file"}, "file"),
    "release": ({}, {}, {}, "aks-1"),
    "empty environment": ({}, {"AZURE_CLUSTER_NAME": ""}, {}, "aks-1"),
}


@pytest.mark.parametrize(("flags", "env", "file", "name"), PRECEDENCE.values(), ids=PRECEDENCE)
def test_the_release_comes_last(flags: Json, env: Json, file: Json, name: str) -> None:
    """A flag overrides the environment, which overrides the file, which overrides the release."""
    assert load(flags, env, file, AZURE).cluster_name == name


def test_what_belongs_to_the_pod_is_not_read() -> None:
    """The identity and the files of the Pod do not apply: the credential is the user's login."""
    of_pod = {
        "DEPLOYMENT_MODE": "managed",
        "AZURE_CLIENT_ID": "c",
        "AZURE_TENANT_ID": "t",
        "AZURE_FEDERATED_TOKEN_FILE": "/var/run/token",
        "HTTPS_PROXY": "http://proxy:1",
        "SSL_CERT_FILE": "/etc/ca",
        "KUBECONFIG": "/etc/kubeconfig",
        "STRICT_CONFIG": "true",
    }
    shared = {"AZURE_ENVIRONMENT": "AzureChinaCloud", "LEADER_ELECTION_NAME": "lease", "NODE_POOLS": "false"}
    settings = load({}, {}, {}, {**AZURE, **of_pod, **shared})
    assert settings.azure_cli
    assert (settings.client_id, settings.tenant_id, settings.federated_token_file) == ("", "", "")
    assert (settings.https_proxy, settings.ssl_cert_file, settings.kubeconfig, settings.strict_config) == (
        "",
        "",
        "",
        False,
    )
    assert (settings.cloud, settings.leader_election_name, settings.node_pools) == ("AzureChinaCloud", "lease", False)
    assert flags_of(settings) == (
        "--subscription-id sub-1 --resource-group rg-1 --cluster-name aks-1 --azure-environment AzureChinaCloud"
        " --leader-election-name lease"
    )
    assert flags_of(load({}, AZURE)) == ""


class Given(NamedTuple):
    """What is given besides the release, and the warning."""

    env: Mapping[str, str] = {}
    warning: str = ""
    flags: Sequence[str] = ()
    file: Mapping[str, str] = {}


OVERRIDDEN = {
    "an exported subscription": Given(
        {"ARM_SUBSCRIPTION_ID": "sub-2"}, "ARM_SUBSCRIPTION_ID=sub-2 overrides sub-1 of the Helm release"
    ),
    "all are given": Given(
        {**AZURE, "AZURE_CLUSTER_NAME": "aks-2"}, "AZURE_CLUSTER_NAME=aks-2 overrides aks-1 of the Helm release"
    ),
    "all are given, and are those of the release": Given(AZURE),
    "a variable of another name": Given(
        {"CLUSTER_NAME": "aks-2"}, "CLUSTER_NAME=aks-2 overrides aks-1 of the Helm release"
    ),
    "a flag": Given({}, "--cluster-name=aks-2 overrides aks-1 of the Helm release", flags=["--cluster-name", "aks-2"]),
    "the file": Given(
        {},
        "resource-group=rg-2 in the file of --config overrides rg-1 of the Helm release",
        file={"resource-group": "rg-2"},
    ),
    "another case of letters": Given({"ARM_RESOURCE_GROUP": "RG-1"}),
    "what identifies no cluster": Given({"METRICS_PORT": "9"}),
    "nothing": Given(),
}


@pytest.mark.parametrize("given", OVERRIDDEN.values(), ids=OVERRIDDEN)
def test_another_cluster_than_that_of_the_release_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: Given
) -> None:
    """An exported variable of another cluster changes what a command reads and writes; prices are read in any case."""

    async def released(*_: object) -> ReleaseSettings:
        return ReleaseSettings({**AZURE, "PRICES": "Standard_NC24ads_A100_v4=2"}, "", "")

    monkeypatch.setattr(helm_release, "read_from_cluster", released)
    config, file = tmp_path / "config", tmp_path / "settings.yaml"
    config.write_text("{}", encoding="utf-8")
    file.write_text(yaml.safe_dump(dict(given.file)), encoding="utf-8")
    call = invocation("cost", "--config", str(file), *given.flags, env={"KUBECONFIG": str(config), **given.env})
    settings, _ = call.settings_and_release()
    assert call.err.getvalue() == (f"warning: {given.warning}\n" if given.warning else "")
    assert dict(settings.prices) == {"Standard_NC24ads_A100_v4": 2}


def invocation(*words: str, env: Mapping[str, str]) -> Any:
    texts = io.StringIO(), io.StringIO(), io.StringIO()
    return Invocation(COMMANDS[words[0]], parse(words), env, *texts)


@pytest.mark.parametrize("kubeconfig", ["absent", "invalid"])
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, kubeconfig: str) -> None:
    """It is no reason to refuse settings that are complete: `check` reports it as one of its results."""
    path = tmp_path / "config"
    if kubeconfig == "invalid":
        path.write_text("[", encoding="utf-8")
    settings, release = invocation("check", env={"KUBECONFIG": str(path), **AZURE}).settings_and_release()
    assert (settings.cluster_name, release) == ("aks-1", None)


def test_a_missing_setting_names_the_way_to_give_it() -> None:
    """Settings with the same cause are one entry; an invalid value keeps its own."""
    assert missing(load({}, {"ARM_RESOURCE_GROUP": "rg"}, azure=False)) == ("subscription-id", "cluster-name")
    with pytest.raises(SettingsError) as refused:
        load({"metrics-port": "http"}, {}, {}, {"ARM_RESOURCE_GROUP": "rg/x"})
    release = ReleaseSettings({}, "there is no Helm release of gpu-provisioner in aks", "Give the flags.")
    assert str(SettingsError([*map(release.explained, refused.value.errors)])).splitlines() == [
        "4 settings are invalid:",
        "  ARM_RESOURCE_GROUP=rg/x: it has invalid characters or an invalid length",
        "    Set it to the name of a resource group: letters, digits, -_.(), at most 90.",
        "  --metrics-port=http: it is not an integer",
        "    Set it to an integer from 0 to 65535.",
        "  ARM_SUBSCRIPTION_ID, AZURE_CLUSTER_NAME: not set, and there is no Helm release of gpu-provisioner in aks",
        "    Give the flags.",
    ]
    other = FieldError("ARM_TENANT_ID", "FieldValueRequired", "it is not set")
    assert release.explained(other) is other
