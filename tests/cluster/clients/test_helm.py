"""The real Helm on the real API server: installing, upgrading, rolling back and uninstalling our charts changes no
claim.

The control plane of these tests starts without our CRDs.
"""

import asyncio
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.cluster import assets
from tests.cluster.charts import CHARTS, IMAGE, VALUES
from tests.cluster.controlplane import ControlPlane
from tests.wire.kubectl import Kubectl
from tests.wire.program import environment
from tests.wire.site import ran

from .stage import CLAIMS, TERMINATION, claim

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

CHART = CHARTS / "gpu-provisioner"
CRD_CHART = CHARTS / "gpu-provisioner-crd"
NAMESPACE = "provisioning"
RELEASE = "gpu-provisioner"
CRDS_RELEASE = "gpu-provisioner-crd"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLAIMS_CRD = "nodeclaims.karpenter.sh"
OURS = (
    "agentpoolnodeclasses.gpu-provisioner.sh",
    "kaitonodeclasses.kaito.sh",
    CLAIMS_CRD,
    "nodeoverlays.karpenter.sh",
    "nodepools.karpenter.sh",
)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
KINDS = (
    "deployments,services,poddisruptionbudgets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,pods"
)
OBJECTS = [
    "clusterrole.rbac.authorization.k8s.io/gpu-provisioner",
    "clusterrole.rbac.authorization.k8s.io/gpu-provisioner-claims-admin",
    "clusterrole.rbac.authorization.k8s.io/gpu-provisioner-claims-view",
    "clusterrole.rbac.authorization.k8s.io/gpu-provisioner-metrics-reader",
    "clusterrolebinding.rbac.authorization.k8s.io/gpu-provisioner",
    "deployment.apps/gpu-provisioner",
    "poddisruptionbudget.policy/gpu-provisioner",
    "role.rbac.authorization.k8s.io/gpu-provisioner",
    "role.rbac.authorization.k8s.io/gpu-provisioner-former-lease",
    "rolebinding.rbac.authorization.k8s.io/gpu-provisioner",
    "rolebinding.rbac.authorization.k8s.io/gpu-provisioner-former-lease",
    "service/gpu-provisioner",
    "serviceaccount/gpu-provisioner",
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Generator[ControlPlane, None, None]:
    """A control plane without our CRDs."""
    with asyncio.Runner() as runner:
        life = ControlPlane.start(assets.find(), tmp_path_factory.mktemp("helm"))
        made = runner.run(life.__aenter__())
        try:
            yield made
        finally:
            runner.run(life.__aexit__(None, None, None))


@pytest.fixture
def kubectl(empty: ControlPlane, tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path, empty.kubeconfig(tmp_path / "config"))


@pytest.fixture
def helm(empty: ControlPlane, tmp_path: Path) -> Iterator[helm_python.Config]:
    """Helm with that cluster's kubeconfig; releases that a test leaves are uninstalled."""
    path = empty.kubeconfig(tmp_path / "helm-config")
    with helm_python.Config(kubeconfig_path=path, namespace=NAMESPACE) as config:
        yield config
        for release in config.list(all_states=True):
            config.uninstall(release["name"])


async def serve_claims(helm: helm_python.Config, kubectl: Kubectl) -> None:
    """Install the CRD chart and wait until its kinds are served."""
    helm.install(CRD_CHART, CRDS_RELEASE, create_namespace=True)
    await kubectl("wait", "--for=condition=Established", "crd", *OURS, "--timeout=20s")


async def adoptable(kubectl: Kubectl, *names: str) -> None:
    """Add the metadata by which Helm adopts these CRDs into the release of our CRD chart."""
    marks = (f"meta.helm.sh/release-name={CRDS_RELEASE}", f"meta.helm.sh/release-namespace={NAMESPACE}")
    await kubectl("label", "crd", *names, "app.kubernetes.io/managed-by=Helm")
    await kubectl("annotate", "crd", *names, *marks)


async def some_claims(cp: ControlPlane) -> list[Json]:
    """Two claims as the controller leaves them, one of them deleting; as stored."""
    there = {one["metadata"]["name"] for one in await claims(cp)}
    for name in sorted({"ws1", "ws2"} - there):
        await cp.demand("POST", CLAIMS, claim(name, finalizers=[TERMINATION]))
    await cp.demand("DELETE", f"{CLAIMS}/ws2")
    return await claims(cp)


async def claims(cp: ControlPlane) -> list[Json]:
    """All claims, once they are served: the server answers 404, then 429, while it updates a CRD."""
    async with asyncio.timeout(300):
        while (found := await cp.request("GET", CLAIMS))[0] in {404, 429}:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.1)
    status, answer = found
    assert status == 200, answer
    items: list[Json] = answer["items"]
    return items


async def objects_of(kubectl: Kubectl, release: str = RELEASE) -> list[str]:
    """The objects of this release in the cluster."""
    selected = ("-l", f"app.kubernetes.io/instance={release}", "-A", "-o", "name")
    return sorted((await kubectl("get", KINDS, *selected)).splitlines())


async def crds(cp: ControlPlane) -> dict[str, Json]:
    return {crd["metadata"]["name"]: crd for crd in (await cp.demand("GET", CRDS))["items"]}


def changed_crd_chart(home: Path) -> Path:
    """The next version of our CRD chart, with one more printer column of claims."""
    chart = home / "next-crd"
    shutil.copytree(CRD_CHART, chart)
    about = chart / "Chart.yaml"
    about.write_text(about.read_text().replace("version: 0.1.0", "version: 0.2.0"))
    path = chart / "templates" / "karpenter.sh_nodeclaims.yaml"
    crd = yaml.safe_load(path.read_text())
    column = {"name": "Class", "type": "string", "jsonPath": ".spec.nodeClassRef.name"}
    crd["spec"]["versions"][0]["additionalPrinterColumns"].append(column)
    path.write_text(yaml.safe_dump(crd))
    return chart


async def test_the_life_of_the_crd_chart(
    helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    """Install, upgrade, rollback and uninstall change the CRDs and leave claims untouched; CRDs and claims remain."""
    made = helm.install(CRD_CHART, CRDS_RELEASE, create_namespace=True)
    assert (made["status"], made["revision"], made["namespace"]) == ("deployed", 1, NAMESPACE)
    await kubectl("wait", "--for=condition=Established", "crd", *OURS, "--timeout=20s")
    before = await some_claims(empty)
    installed = await crds(empty)

    upgraded = helm.upgrade(changed_crd_chart(tmp_path), CRDS_RELEASE)
    assert (upgraded["status"], upgraded["revision"], upgraded["chart_version"]) == ("deployed", 2, "0.2.0")
    columns = (await crds(empty))[CLAIMS_CRD]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert columns[-1]["name"] == "Class"

    helm.rollback(CRDS_RELEASE, version=1)
    assert {name: crd["spec"] for name, crd in (await crds(empty)).items()} == {
        name: crd["spec"] for name, crd in installed.items()
    }

    gone = helm.uninstall(CRDS_RELEASE)
    assert gone["info"].splitlines() == [
        "These resources were kept due to the resource policy:",
        *(f"[CustomResourceDefinition] {name}" for name in OURS),
    ]
    with pytest.raises(helm_python.HelmNotFoundError):
        helm.status(CRDS_RELEASE)
    left = await crds(empty)
    assert {name: crd["metadata"]["uid"] for name, crd in left.items()} == {
        name: crd["metadata"]["uid"] for name, crd in installed.items()
    }
    assert await claims(empty) == before

    again = helm.install(CRD_CHART, CRDS_RELEASE)
    assert again["status"] == "deployed"
    assert await claims(empty) == before


async def test_crds_of_another_chart_are_adopted(
    helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl
) -> None:
    """Helm refuses CRDs from a `crds/` folder and names the missing labels; with them it adopts the CRDs."""
    await serve_claims(helm, kubectl)
    helm.uninstall(CRDS_RELEASE)
    before = await some_claims(empty)
    await kubectl("label", "crd", *OURS, "app.kubernetes.io/managed-by-")
    await kubectl("annotate", "crd", *OURS, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
    with pytest.raises(helm_python.HelmReleaseError) as refused:
        helm.install(CRD_CHART, CRDS_RELEASE)
    for mark in (
        "exists and cannot be imported into the current release",
        'missing key "app.kubernetes.io/managed-by": must be set to "Helm"',
        f'missing key "meta.helm.sh/release-name": must be set to "{CRDS_RELEASE}"',
        f'missing key "meta.helm.sh/release-namespace": must be set to "{NAMESPACE}"',
    ):
        assert mark in str(refused.value)
    await adoptable(kubectl, *OURS)
    assert helm.install(CRD_CHART, CRDS_RELEASE)["status"] == "deployed"
    assert await claims(empty) == before


async def test_crds_of_another_release_are_left_out(
    helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl
) -> None:
    """Those of node auto-provisioning, NodeClaim and NodePool: neither install nor uninstall changes them."""
    await serve_claims(helm, kubectl)
    helm.uninstall(CRDS_RELEASE)
    theirs = (CLAIMS_CRD, "nodepools.karpenter.sh")
    await kubectl("label", "crd", *theirs, "app.kubernetes.io/managed-by-")
    await kubectl("annotate", "crd", *theirs, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
    before = await some_claims(empty)
    known = await crds(empty)
    values = {"crds": {"nodeClaims": False, "nodePools": False}}
    assert helm.install(CRD_CHART, CRDS_RELEASE, values)["status"] == "deployed"
    kept = [f"[CustomResourceDefinition] {name}" for name in OURS if name not in theirs]
    after = await crds(empty)
    assert {name: after[name] for name in theirs} == {name: known[name] for name in theirs}
    assert helm.uninstall(CRDS_RELEASE)["info"].splitlines()[1:] == kept
    assert {name: (await crds(empty))[name] for name in theirs} == {name: known[name] for name in theirs}
    assert await claims(empty) == before
    await adoptable(kubectl, *theirs)


async def test_the_life_of_the_controller_chart(
    helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl
) -> None:
    """Each object of the chart is created, follows its values, and is deleted with it; claims and CRDs are
    unchanged.
    """
    await serve_claims(helm, kubectl)
    before = await some_claims(empty)
    definitions = await crds(empty)
    deployment = f"{DEPLOYMENTS}/{RELEASE}"

    made = helm.install(CHART, RELEASE, VALUES)
    assert (made["status"], made["revision"], made["chart_name"]) == ("deployed", 1, "gpu-provisioner")
    assert await objects_of(kubectl) == OBJECTS
    first = await empty.demand("GET", deployment)
    assert (first["spec"]["replicas"], first["metadata"]["generation"]) == (2, 1)

    values = {**VALUES, "replicas": 1, "logLevel": "debug"}
    assert helm.upgrade(CHART, RELEASE, values)["revision"] == 2
    second = await empty.demand("GET", deployment)
    assert (second["spec"]["replicas"], second["metadata"]["uid"]) == (1, first["metadata"]["uid"])
    (container,) = second["spec"]["template"]["spec"]["containers"]
    assert {"name": "LOG_LEVEL", "value": "debug"} in container["env"]

    helm.rollback(RELEASE)
    assert (await empty.demand("GET", deployment))["spec"] == first["spec"]
    history = [(one["revision"], one["status"]) for one in helm.history(RELEASE)]
    assert history == [(1, "superseded"), (2, "superseded"), (3, "deployed")]

    assert helm.uninstall(RELEASE)["release"]["status"] == "uninstalled"
    assert await objects_of(kubectl) == []
    assert [release["name"] for release in helm.list()] == [CRDS_RELEASE]
    assert (await claims(empty), await crds(empty)) == (before, definitions)


async def test_the_notes_depend_on_installed_crds(
    helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    """Helm checks whether the cluster serves claims at each call."""
    await serve_claims(helm, kubectl)
    with helm_python.Config(kubeconfig_path=empty.kubeconfig(tmp_path / "another"), namespace=NAMESPACE) as another:
        notes = another.install(CHART, RELEASE, VALUES)["notes"]
    assert "Next steps:" in notes
    assert "no NodeClaim CRD" not in notes


async def test_a_missing_value_changes_nothing(helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl) -> None:
    """Helm names the missing value; an installation creates nothing, an upgrade leaves the old release."""
    await serve_claims(helm, kubectl)
    azure = {**VALUES["azure"], "clusterName": ""}
    message = "azure.clusterName is needed: the name of the AKS cluster"
    with pytest.raises(helm_python.HelmReleaseError, match=message):
        helm.install(CHART, RELEASE, {**VALUES, "azure": azure})
    assert ([one["name"] for one in helm.list(all_states=True)], await objects_of(kubectl)) == ([CRDS_RELEASE], [])
    helm.install(CHART, RELEASE, VALUES)
    before = await empty.demand("GET", f"{DEPLOYMENTS}/{RELEASE}")
    with pytest.raises(helm_python.HelmReleaseError, match=message):
        helm.upgrade(CHART, RELEASE, {**VALUES, "azure": azure})
    assert await empty.demand("GET", f"{DEPLOYMENTS}/{RELEASE}") == before
    assert (helm.status(RELEASE)["revision"], helm.status(RELEASE)["status"]) == (1, "deployed")


async def test_two_releases_in_one_cluster(helm: helm_python.Config, kubectl: Kubectl) -> None:
    """The second release has names of its own; when it is uninstalled, the first keeps its roles."""
    await serve_claims(helm, kubectl)
    helm.install(CHART, RELEASE, VALUES)
    helm.install(CHART, "canary", VALUES)
    second = [name.replace("/gpu-provisioner", "/canary-gpu-provisioner") for name in OBJECTS]
    assert (await objects_of(kubectl), await objects_of(kubectl, "canary")) == (OBJECTS, second)
    helm.uninstall("canary")
    assert (await objects_of(kubectl), await objects_of(kubectl, "canary")) == (OBJECTS, [])
    may = ("auth", "can-i", "patch", "nodeclaims.karpenter.sh/ws1", "--as")
    account = f"system:serviceaccount:{NAMESPACE}"
    assert await kubectl(*may, f"{account}:gpu-provisioner") == "yes\n"
    assert (await kubectl.run(*may, f"{account}:canary-gpu-provisioner")).out == "no\n"


async def test_commands_read_the_settings_of_the_release(
    helm: helm_python.Config, kubectl: Kubectl, empty: ControlPlane, tmp_path: Path
) -> None:
    """With a context alone: the release is found, also by a user who may only read its namespace; else what to give."""

    async def gc(*words: str, kubeconfig: Path | None = None) -> tuple[int, str]:
        config = kubeconfig or empty.kubeconfig(tmp_path / "user-config")
        ended = await ran("gc", "--kubeconfig", str(config), *words, env=environment(tmp_path))
        return ended.code, ended.err

    await serve_claims(helm, kubectl)
    code, err = await gc("--context", "loopback")
    assert code == 2
    found, remedy = err.splitlines()[1:]
    settings = "ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, AZURE_CLUSTER_NAME"
    assert found == (
        f"  {settings}: not set, and there is no Helm release of gpu-provisioner in {empty.url} (context loopback)"
    )
    assert remedy.startswith("    Select the cluster with --context or --kubeconfig, or give --subscription-id, ")

    controller = {**IMAGE, "extraEnv": {"ARM_ENDPOINT": "http://127.0.0.1:9"}}
    helm.install(CHART, RELEASE, {**VALUES, "controller": controller})
    read = "gpu-provisioner gc: ARM: ConnectionFailed: "
    code, err = await gc("--context", "loopback")
    assert (code, err[: len(read)]) == (1, read)

    await kubectl("create", "serviceaccount", "reader", "-n", NAMESPACE)
    token = await empty.service_account_token("reader", NAMESPACE)
    reader = empty.kubeconfig(tmp_path / "reader-config", token=token)
    code, err = await gc("--release-namespace", NAMESPACE, kubeconfig=reader)
    assert (code, "cannot list resource" in err, "--release-namespace names, or give --sub" in err) == (2, True, True)
    await kubectl("create", "role", "reader", "--verb=list", "--resource=deployments.apps", "-n", NAMESPACE)
    account = f"--serviceaccount={NAMESPACE}:reader"
    await kubectl("create", "rolebinding", "reader", "--role=reader", account, "-n", NAMESPACE)
    code, err = await gc("--release-namespace", NAMESPACE, kubeconfig=reader)
    assert (code, "not set" in err) == (1, False)

    helm.install(CHART, "canary", VALUES)
    code, err = await gc()
    assert code == 2
    names = f"{NAMESPACE}/canary-gpu-provisioner and {NAMESPACE}/gpu-provisioner"
    assert f"there are 2 Helm releases of gpu-provisioner: {names}" in err
    await kubectl("delete", "role,rolebinding,serviceaccount", "reader", "-n", NAMESPACE)


async def test_the_pod_meets_the_restricted_standard(
    helm: helm_python.Config, empty: ControlPlane, kubectl: Kubectl
) -> None:
    """A namespace that enforces the restricted Pod Security Standard accepts the chart's Pod without a warning."""
    await serve_claims(helm, kubectl)
    helm.install(CHART, RELEASE, VALUES)
    await kubectl("label", "ns", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    deployment = await empty.demand("GET", f"{DEPLOYMENTS}/{RELEASE}")
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "controller", "namespace": NAMESPACE}}
    output = await kubectl.run("create", "--dry-run=server", "-f", kubectl.file(pod))
    assert output == (0, "pod/controller created (server dry run)\n", "")
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    output = await kubectl.run("create", "--dry-run=server", "-f", kubectl.file(pod))
    assert 'violates PodSecurity "restricted:latest"' in output.err
