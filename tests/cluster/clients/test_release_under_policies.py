"""`gpu-provisioner release` on the real API server, under the chart's protection policies."""

import asyncio
from pathlib import Path
from typing import Any

import helm_python
import pytest

from provisioner.api import labels
from tests.cluster import assets
from tests.cluster.charts import COLLECTIONS
from tests.cluster.controlplane import NAMESPACE, ControlPlane
from tests.cluster.realworld import RealWorld
from tests.world.harness import node_claim

from .release import CHART, RELEASE, chart_values
from .stage import CLAIMS, NODES

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

NAME, NODE, USER = "ws1", "aks-ws1-47249735-vmss000000", "releaser"
KNOWN = "--i-know-the-pool-is-gone"
RULES: list[Json] = [
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "create", "patch"]},
]
EXEMPT: Json = {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims/finalizers"], "verbs": ["update"]}
# The command refuses a NodeClaim that was deleted a shorter time ago.
SETTLE_SECONDS = 61


async def user_token(cp: ControlPlane) -> str:
    accounts = COLLECTIONS["ServiceAccount"].format(namespace="default")
    await cp.demand("POST", accounts, {"metadata": {"name": USER}})
    await cp.demand("POST", COLLECTIONS["ClusterRole"], {"metadata": {"name": USER}, "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": "default"}
    binding = {"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]}
    await cp.demand("POST", COLLECTIONS["ClusterRoleBinding"], binding)
    return await cp.service_account_token(USER, "default")


async def stuck(cp: ControlPlane) -> None:
    """A NodeClaim and its Node, both deleted and held by the finalizer; their agent pool does not exist."""
    claim: Json = node_claim(NAME)
    claim["metadata"]["finalizers"] = [labels.FINALIZER]
    made = await cp.demand("POST", CLAIMS, claim)
    marks = {labels.CLAIM_UID: made["metadata"]["uid"], labels.AKS_AGENTPOOL: NAME, labels.AGENTPOOL: NAME}
    node = {"metadata": {"name": NODE, "labels": marks, "finalizers": [labels.FINALIZER]}}
    await cp.demand("POST", NODES, node)
    for path in (f"{CLAIMS}/{NAME}", f"{NODES}/{NODE}"):
        await cp.demand("DELETE", path)


async def test_release_needs_the_permission_that_the_policies_name(tmp_path: Path) -> None:
    """A user who may patch both objects is refused, in words of the policy; with `update` on the finalizers, not."""
    async with ControlPlane.start(assets.find(), tmp_path) as cp:
        await cp.install_crds()
        with helm_python.Config(kubeconfig_path=cp.kubeconfig(tmp_path / "helm"), namespace=NAMESPACE) as helm:
            async with RealWorld.open(cp, tmp_path) as world:
                await asyncio.to_thread(helm.install, CHART, RELEASE, chart_values(world), create_namespace=True)
                token = await user_token(cp)
                await stuck(cp)
                await asyncio.sleep(SETTLE_SECONDS)

                refused = await world.command("release", NAME, KNOWN, token=token)
                assert (refused.code, "Traceback" in refused.err) == (1, False), refused
                cause, remedy = refused.err.splitlines()
                assert "only the gpu-provisioner removes the finalizer karpenter.sh/termination" in cause
                assert "kubectl auth can-i --list shows your permissions" in remedy
                for path in (f"{CLAIMS}/{NAME}", f"{NODES}/{NODE}"):
                    assert (await cp.demand("GET", path))["metadata"]["finalizers"] == [labels.FINALIZER]

                role = f"{COLLECTIONS['ClusterRole']}/{USER}"
                await cp.demand("PATCH", role, {"rules": [*RULES, EXEMPT]}, "application/merge-patch+json")
                async with asyncio.timeout(300):
                    while (await world.command("release", NAME, KNOWN, token=token)).code:  # noqa: ASYNC110 - its authorizer has a cache
                        await asyncio.sleep(1)
                for path in (f"{CLAIMS}/{NAME}", f"{NODES}/{NODE}"):
                    assert (await cp.request("GET", path))[0] == 404
