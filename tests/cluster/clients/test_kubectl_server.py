"""kubectl on the real API server only: drain with PodDisruptionBudgets, and authorization."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.backend import real
from tests.cluster.controlplane import NAMESPACE, ControlPlane
from tests.wire.kubectl import Kubectl

from .stage import NODES, Stage

pytestmark = [pytest.mark.asyncio, pytest.mark.cluster]

WS1 = "nodeclaim.karpenter.sh/ws1"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NODE = {"apiVersion": "v1", "kind": "Node"}
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"


@pytest_asyncio.fixture
async def it(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Stage]:
    """The real server, wiped."""
    async with real(control_plane, tmp_path) as backend:
        yield Stage(backend)


@pytest.fixture
def controller(control_plane: ControlPlane, tmp_path: Path) -> Kubectl:
    """kubectl with the token of our chart's service account."""
    return Kubectl(tmp_path, control_plane.kubeconfig(tmp_path / "controller.kubeconfig", "controller"))


def cells(printed: str) -> list[list[str]]:
    """The rows of a table whose cells contain spaces."""
    return [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]


async def test_explain_recursive(it: Stage) -> None:
    """`explain --recursive` prints every field of our CRD with its description."""
    tree = (await it.kubectl("explain", "nodeclaim", "--recursive")).splitlines()
    for line in (
        "  spec\t<Object> -required-",
        "    expireAfter\t<string>",
        "  status\t<Object>",
        "    nodeName\t<string>",
    ):
        assert line in tree
    output = await it.kubectl("explain", "nodeclaim.spec.terminationGracePeriod")
    assert "FIELD: terminationGracePeriod <string>\n" in output
    assert "the controller will wait indefinitely for pods to be drained." in " ".join(output.split())


async def test_a_drain_waits_for_a_disruption_budget(it: Stage) -> None:
    """`drain` cordons the Node, retries while the PodDisruptionBudget refuses, and ends when the pod may be evicted."""
    await it.node("n1")
    await it.pod("web", node="n1", labels={"app": "web"})
    selected = {"selector": {"matchLabels": {"app": "web"}}}
    await it.create(BUDGETS, {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, **selected}})
    counted = ("wait", "--for=jsonpath={.status.currentHealthy}=1", "pdb/keep", "--timeout=30s")
    assert await it.kubectl(*counted) == "poddisruptionbudget.policy/keep condition met\n"
    output = await it.kubectl.refused("drain", "n1", "--timeout=20s")
    assert "cannot delete Pods that declare no controller (use --force to override): default/web" in output
    async with it.kubectl.running("drain", "n1", "--force", "--timeout=30s", "-v=6") as kubectl:
        await kubectl.requested("/web/eviction", 'status="429')
        assert not kubectl.ended
        assert (await it.kubectl.table("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
        await it.kubectl("patch", "pdb", "keep", "-p", '{"spec":{"minAvailable":0}}')
        code, out, err = await kubectl.end()
    assert (code, out.splitlines()[-2:]) == (0, ["pod/web evicted", "node/n1 drained"])
    assert "Cannot evict pod as it would violate the pod's disruption budget" in err
    assert await it.kubectl.run("get", "pods") == (0, "", "No resources found in default namespace.\n")


async def test_a_drain_ignores_daemonsets_and_waits_for_the_kubelet(it: Stage) -> None:
    """DaemonSet pods stay with --ignore-daemonsets; the drain waits until the kubelet removes a slow pod."""
    await it.node("n1")
    labels = {"app": "plugin"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    daemons = await it.create(DAEMON_SETS, {"metadata": {"name": "plugin"}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "uid": daemons["metadata"]["uid"]}
    await it.pod("plugin-1", node="n1", ownerReferences=[{**owner, "controller": True}])
    await it.pod("slow", node="n1", finalizers=["example.com/kubelet"])
    output = await it.kubectl.refused("drain", "n1", "--force", "--timeout=20s")
    assert "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/plugin-1" in output
    drain = ("drain", "n1", "--force", "--ignore-daemonsets", "--timeout=30s", "-v=6")
    async with it.kubectl.running(*drain) as kubectl:
        await kubectl.requested("/slow/eviction", 'status="201')
        assert "deletionTimestamp" in (await it.get(f"{PODS}/slow"))["metadata"]
        assert not kubectl.ended
        await it.patch(f"{PODS}/slow", {"metadata": {"finalizers": None}})
        code, out, err = await kubectl.end()
    assert (code, out.splitlines()[-2:]) == (0, ["pod/slow evicted", "node/n1 drained"])
    assert "ignoring DaemonSet-managed Pods: default/plugin-1" in err
    assert await it.kubectl("get", "pods", "-o", "name") == "pod/plugin-1\n"
    assert (await it.get(f"{NODES}/n1"))["spec"]["unschedulable"] is True


async def test_the_rights_of_the_controller(controller: Kubectl) -> None:
    """The chart's service account has the listed rights and no others beyond those of every account."""
    assert cells(await controller("auth", "whoami"))[1] == [
        "Username",
        f"system:serviceaccount:{NAMESPACE}:gpu-provisioner",
    ]
    header, *rows = cells(await controller("auth", "can-i", "--list", "-n", NAMESPACE))
    assert header == ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"]
    granted = sorted((row[0], row[2], row[3]) for row in rows if len(row) == len(header))
    assert [row for row in granted if not row[0].startswith("selfsubject")] == [
        ("agentpoolnodeclasses.gpu-provisioner.sh", "[]", "[list watch patch]"),
        ("agentpoolnodeclasses.gpu-provisioner.sh/status", "[]", "[patch]"),
        ("customresourcedefinitions.apiextensions.k8s.io", "[]", "[get list watch]"),
        ("daemonsets.apps", "[]", "[list watch]"),
        ("deviceclasses.resource.k8s.io", "[]", "[list]"),
        ("events", "[]", "[create get list patch]"),
        ("jobs.batch", "[]", "[list]"),
        ("leases.coordination.k8s.io", "[gpu-provisioner-leader-election]", "[get patch]"),
        ("namespaces", "[]", "[list watch]"),
        ("nodeclaims.karpenter.sh", "[]", "[get list watch patch delete create]"),
        ("nodeclaims.karpenter.sh/status", "[]", "[patch]"),
        ("nodeoverlays.karpenter.sh", "[]", "[list watch]"),
        ("nodeoverlays.karpenter.sh/status", "[]", "[patch]"),
        ("nodepools.karpenter.sh", "[]", "[list watch patch]"),
        ("nodepools.karpenter.sh/status", "[]", "[patch]"),
        ("nodes", "[]", "[list watch patch delete]"),
        ("persistentvolumeclaims", "[]", "[get list]"),
        ("persistentvolumes", "[]", "[get list]"),
        ("poddisruptionbudgets.policy", "[]", "[list watch]"),
        ("pods", "[]", "[list delete watch]"),
        ("pods/eviction", "[]", "[create]"),
        ("resourceclaims.resource.k8s.io", "[]", "[list]"),
        ("resourceclaimtemplates.resource.k8s.io", "[]", "[get list]"),
        ("resourceslices.resource.k8s.io", "[]", "[list watch]"),
        ("storageclasses.storage.k8s.io", "[]", "[list]"),
        ("subjectaccessreviews.authorization.k8s.io", "[]", "[create]"),
        ("tokenreviews.authentication.k8s.io", "[]", "[create]"),
        ("volumeattachments.storage.k8s.io", "[]", "[list]"),
    ]


@pytest.mark.parametrize(
    "operation",
    [
        "watch nodeclaims",
        "patch nodeclaims/status",
        "delete nodeclaims",
        "delete nodes",
        "create pods/eviction -A",
        "delete pods -A",
        "create events -n default",
        f"patch leases/gpu-provisioner-leader-election -n {NAMESPACE}",
        "patch leases/gpu-provisioner-leader-election -n kube-system",
    ],
)
async def test_can_i_is_yes_for_what_the_controller_does(controller: Kubectl, operation: str) -> None:
    """`auth can-i` answers yes to the controller's service account for each of its operations."""
    verb, *rest = operation.split()
    assert await controller("auth", "can-i", verb, *_resource(rest)) == "yes\n"


@pytest.mark.parametrize(
    "operation",
    [
        f"get secrets -n {NAMESPACE}",
        "list secrets -A",
        f"get configmaps -n {NAMESPACE}",
        "create nodepools",
        "delete nodepools",
        "update nodeclaims",
        "deletecollection nodeclaims",
        "patch nodes/status",
        "create nodes",
        "deletecollection pods -A",
        "get pods -A",
        "patch pods -A",
        "get pods/exec -A",
        "create serviceaccounts/token -A",
        "delete customresourcedefinitions",
        "patch clusterroles",
        "impersonate users",
        f"patch leases/another -n {NAMESPACE}",
        "patch leases/another -n kube-system",
        "get leases -n kube-node-lease",
    ],
)
async def test_can_i_is_no_for_everything_else(controller: Kubectl, operation: str) -> None:
    """`auth can-i` answers no to the controller's service account for what it must not do."""
    verb, *rest = operation.split()
    code, out, _ = await controller.run("auth", "can-i", verb, *_resource(rest))
    assert (code, out) == (1, "no\n")


def _resource(arguments: list[str]) -> list[str]:
    """kubectl takes subresources by a flag; `kind/name` is a name to it."""
    what, *rest = arguments
    kind, _, below = what.partition("/")
    return [kind, f"--subresource={below}", *rest] if below in {"status", "eviction", "exec", "token"} else arguments


async def test_the_server_refuses_what_can_i_denies(it: Stage, controller: Kubectl) -> None:
    """With that token, reading claims succeeds; creating a Node and reading Secrets are forbidden."""
    await it.claim()
    assert await controller("get", "nodeclaims", "-o", "name") == f"{WS1}\n"
    who = f'User "system:serviceaccount:{NAMESPACE}:gpu-provisioner" cannot'
    output = await controller.refused("create", "-f", it.kubectl.file({**NODE, "metadata": {"name": "n2"}}))
    assert f'nodes is forbidden: {who} create resource "nodes"' in output
    output = await controller.refused("get", "secrets")
    assert f'secrets is forbidden: {who} list resource "secrets" in API group "" in the namespace "default"' in output
