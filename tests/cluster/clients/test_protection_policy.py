"""The chart's protection of Nodes and finalizers on a real API server, installed by Helm with its default values.

The requests are those of users whom RBAC permits them: the refusals are those of the policies.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import helm_python
import pytest

from tests.cluster import assets
from tests.cluster.charts import CHARTS, VALUES
from tests.cluster.controlplane import NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from tests.wire.kubectl import Kubectl

from .stage import CLAIMS, NODES, TERMINATION, claim

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

CONTROLLER = ("--as", f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}")
TENANT = ("--as", "tenant")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OWNER = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "ws1", "uid": "5e3c"}
POOLED = "aks-ws1-12345678-vmss000000"
KARPENTER = "aks-default-abcde"
# Nodes that the controller may change: its own, one of Azure/gpu-provisioner, and one whose labels AKS replaced.
OURS: dict[str, Json] = {
    "marked": {"labels": {"gpu-provisioner.sh/nodeclaim-uid": "5e3c"}},
    "legacy": {"labels": {"kaito.sh/creation-timestamp": "2026-03-01T12-00-00Z"}},
    POOLED: {"ownerReferences": [OWNER]},
}
FOREIGN: dict[str, Json] = {
    "plain": {},
    "system": {"labels": {"kubernetes.azure.com/agentpool": "system"}},
    "daemon": {"ownerReferences": [{**OWNER, "apiVersion": "apps/v1", "kind": "DaemonSet"}]},
    # Karpenter's: a virtual machine without an agent pool.
    KARPENTER: {"labels": {"karpenter.azure.com/aksnodeclass": "default"}, "ownerReferences": [OWNER]},
    "aks-gpu-12345678-vmss000001": {"labels": {"karpenter.azure.com/aksnodeclass": "gpu"}, "ownerReferences": [OWNER]},
}
RELEASE: Json = {"metadata": {"finalizers": None}}
LABEL: Json = {"metadata": {"labels": {"probe": "1"}}}
OTHER_CLASS = {"nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}}

# What Karpenter's chart for Azure grants it:
# https://github.com/Azure/karpenter-provider-azure/blob/main/charts/karpenter/templates/clusterrole-core.yaml
KARPENTER_RULES = [
    {
        "apiGroups": ["karpenter.sh"],
        "resources": ["nodeclaims", "nodeclaims/status"],
        "verbs": ["get", "list", "watch", "create", "delete", "update", "patch"],
    },
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch", "delete", "update"]},
]


@contextlib.asynccontextmanager
async def installed(home: Path, **policy: Any) -> AsyncIterator[tuple[ControlPlane, Kubectl]]:
    """A control plane with both charts, and kubectl as its administrator."""
    async with ControlPlane.start(assets.find(), home) as cp:
        await cp.install_crds()
        kubectl = Kubectl(home, cp.kubeconfig(home / "config"))
        with helm_python.Config(kubeconfig_path=cp.kubeconfig(home / "helm"), namespace=NAMESPACE) as helm:
            values = {**VALUES, "protectionPolicy": policy}
            chart = CHARTS / "gpu-provisioner"
            await asyncio.to_thread(helm.install, chart, "gpu-provisioner", values, create_namespace=True)
        rules = [{"apiGroups": ["karpenter.sh", ""], "resources": ["nodeclaims", "nodes"], "verbs": ["*"]}]
        await cp.demand("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "tenants"}, "rules": rules})
        for name, kind in (("tenant", "User"), ("operators", "Group")):
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenants"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
            await cp.demand("POST", f"{RBAC}/clusterrolebindings", binding)
        await cp.demand("POST", NODES, {"metadata": {"name": "probe"}})
        async with asyncio.timeout(300):
            while "ValidatingAdmissionPolicy" not in await change_as_controller(cp, "probe", LABEL):  # noqa: ASYNC110
                await asyncio.sleep(0.2)  # The server applies a policy some time after it is created.
        yield cp, kubectl


async def label(kubectl: Kubectl, node: str, *who: str) -> Any:
    """kubectl's result for a change of a Node's labels."""
    return await kubectl.run("label", "node", node, "probe=1", "--overwrite", "--dry-run=server", *who)


async def change_as_controller(cp: ControlPlane, node: str, patch: Json | None) -> str:
    """The server's answer, with its status first, to the controller's PATCH of a Node, or to its DELETE without one.

    kubectl reads an object before it changes it, for which the controller has no permission: it reads from its watch.
    """
    token = await cp.service_account_token(SERVICE_ACCOUNT, NAMESPACE)
    method, path = ("DELETE" if patch is None else "PATCH"), f"{NODES}/{node}?dryRun=All"
    status, answer = await cp.request(method, path, patch, "application/merge-patch+json", token=token)
    return f"{status} {answer.get('message', '') if isinstance(answer, dict) else answer}"


async def release(kubectl: Kubectl, thing: str, *who: str) -> Any:
    """kubectl's result for the removal of all finalizers."""
    return await kubectl.run("patch", thing, "--type=merge", "-p", json.dumps(RELEASE), "--dry-run=server", *who)


async def test_the_controller_writes_only_to_nodes_of_its_pools(tmp_path: Path) -> None:
    """Its role permits every Node; the policy permits those with its mark, or that of Azure/gpu-provisioner."""
    async with installed(tmp_path) as (cp, kubectl):
        for name, metadata in {**OURS, **FOREIGN}.items():
            await cp.demand("POST", NODES, {"metadata": {"name": name, "finalizers": [TERMINATION], **metadata}})
        for name in OURS:
            answers = [await change_as_controller(cp, name, patch) for patch in (LABEL, RELEASE, None)]
            assert [one[:3] for one in answers] == ["200"] * 3, (name, answers)
        for name in FOREIGN:
            words = f"Node {name} was not created from an agent pool of the gpu-provisioner"
            for patch in (LABEL, None):
                refused = await change_as_controller(cp, name, patch)
                assert refused.startswith("403"), (name, refused)
                assert "ValidatingAdmissionPolicy 'gpu-provisioner-nodes'" in refused
                assert words in refused
            for who in (TENANT, ()):
                assert (await label(kubectl, name, *who)).code == 0, "others are not concerned"
                assert (await release(kubectl, f"node/{name}", *who)).code == 0


async def test_only_the_controller_removes_its_finalizer(tmp_path: Path) -> None:
    """Users who may change NodeClaims and Nodes are refused, unless the values name them or they administer."""
    allowed = {"users": ["jane"], "groups": ["operators"]}
    async with installed(tmp_path, **allowed) as (cp, kubectl):
        await cp.demand("POST", NODES, {"metadata": {"name": "ours", "finalizers": [TERMINATION], **OURS["marked"]}})
        for one in (
            claim("ours", finalizers=[TERMINATION]),
            claim("others", spec=OTHER_CLASS, finalizers=[TERMINATION]),
        ):
            await cp.demand("POST", CLAIMS, one)
        jane = ("--as", "jane", "--as-group", "operators")
        member = ("--as", "john", "--as-group", "operators")
        for thing in ("node/ours", "nodeclaim/ours"):
            refused = await release(kubectl, thing, *TENANT)
            assert refused.code != 0, thing
            assert "only the gpu-provisioner removes the finalizer karpenter.sh/termination" in refused.err
            assert (await kubectl.run("label", thing, "a=b", "--dry-run=server", *TENANT)).code == 0
            assert (await kubectl.run("delete", thing, "--dry-run=server", *TENANT)).code == 0
            for who in (jane, member, ()):
                released = await release(kubectl, thing, *who)
                assert released.code == 0, (thing, who, released)
        assert (await release(kubectl, "nodeclaim/ours", *CONTROLLER)).code == 0
        assert (await change_as_controller(cp, "ours", RELEASE)).startswith("200")
        assert (await release(kubectl, "nodeclaim/others", *TENANT)).code == 0, "Karpenter's own NodeClaims"


async def test_karpenter_removes_its_own_nodes(tmp_path: Path) -> None:
    """Beside the default values, Karpenter with its own ClusterRole ends the life of its Nodes and NodeClaims."""
    karpenter = ("--as", "system:serviceaccount:karpenter:karpenter")
    async with installed(tmp_path) as (cp, kubectl):
        await cp.demand(
            "POST", f"{RBAC}/clusterroles", {"metadata": {"name": "karpenter-core"}, "rules": KARPENTER_RULES}
        )
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "karpenter-core"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": karpenter[1]}
        binding = {"metadata": {"name": "karpenter-core"}, "roleRef": role, "subjects": [subject]}
        await cp.demand("POST", f"{RBAC}/clusterrolebindings", binding)
        metadata = {"name": KARPENTER, "finalizers": [TERMINATION], **FOREIGN[KARPENTER]}
        await cp.demand("POST", NODES, {"metadata": metadata})
        await cp.demand("POST", CLAIMS, claim("default-abcde", spec=OTHER_CLASS, finalizers=[TERMINATION]))
        for thing, patch in ((f"node/{KARPENTER}", {"spec": {"unschedulable": True}}), ("nodeclaim/default-abcde", {})):
            text = json.dumps({"metadata": {"labels": {"a": "b"}}, **patch})
            for done in (
                await kubectl.run("patch", thing, "--type=merge", "-p", text, *karpenter),
                await kubectl.run("delete", thing, "--wait=false", *karpenter),
                await kubectl.run("patch", thing, "--type=merge", "-p", json.dumps(RELEASE), *karpenter),
            ):
                assert done.code == 0, (thing, done)
        assert (await cp.request("GET", f"{NODES}/{KARPENTER}"))[0] == 404
        assert (await cp.request("GET", f"{CLAIMS}/default-abcde"))[0] == 404


async def test_a_crd_can_be_deleted_with_its_claims(tmp_path: Path) -> None:
    """The API server deletes the NodeClaims of a deleted CRD; those with the finalizer wait for its removal."""
    async with installed(tmp_path) as (cp, kubectl):
        await cp.demand("POST", CLAIMS, claim("free"))
        await cp.demand("POST", CLAIMS, claim("held", finalizers=[TERMINATION]))
        await kubectl("delete", "crd", "nodeclaims.karpenter.sh", "--wait=false")
        async with asyncio.timeout(300):
            while (await cp.request("GET", f"{CLAIMS}/free"))[0] != 404:  # noqa: ASYNC110 - another process deletes it
                await asyncio.sleep(0.2)
        assert (await cp.request("GET", f"{CLAIMS}/held"))[0] == 200
        await kubectl("patch", "nodeclaim", "held", "--type=merge", "-p", json.dumps(RELEASE))
        async with asyncio.timeout(300):
            while (await cp.request("GET", f"{CLAIMS}/held"))[0] != 404:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.2)
