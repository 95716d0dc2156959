"""`gpu-provisioner uninstall` and Helm on the real API server, with only the permissions that the command documents."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import helm_python
import pytest

from provisioner.api import labels
from tests.cluster import assets
from tests.cluster.charts import COLLECTIONS
from tests.cluster.controlplane import CONTROLLERS, NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from tests.cluster.processes import Ended
from tests.cluster.realworld import FOREIGN, RealWorld
from tests.world.claims import ready
from tests.world.demand import node_class, node_pool
from tests.world.harness import node_claim

from .release import CHART, RELEASE, chart_values

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

DRAIN = ("uninstall", "--drain", "--yes")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/gpu-provisioner-leader-election"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
USER = "uninstaller"
RULES: Sequence[Json] = (
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims", "nodepools"], "verbs": ["list", "delete"]},
    {"apiGroups": ["gpu-provisioner.sh"], "resources": ["agentpoolnodeclasses"], "verbs": ["list", "delete"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "delete"]},
)


async def user_token(cp: ControlPlane) -> str:
    """The token of a user with the documented permissions, and no others."""
    accounts = COLLECTIONS["ServiceAccount"].format(namespace="default")
    await cp.demand("POST", accounts, {"metadata": {"name": USER}})
    await cp.demand("POST", COLLECTIONS["ClusterRole"], {"metadata": {"name": USER}, "rules": [*RULES]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": "default"}
    binding = {"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]}
    await cp.demand("POST", COLLECTIONS["ClusterRoleBinding"], binding)
    return await cp.service_account_token(USER, "default")


def other_controllers_claim() -> Json:
    claim: Json = node_claim("theirs")
    claim["metadata"] |= {"labels": {}, "finalizers": [labels.FINALIZER]}
    claim["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    return claim


async def test_uninstall_leaves_nothing(tmp_path: Path) -> None:
    """Drain beside the controller, helm uninstall, and the Lease; claims of other controllers stay.

    The static NodePool would replace its NodeClaim if it was not deleted first.
    """
    async with ControlPlane.start(assets.find(), tmp_path, controller_manager=CONTROLLERS) as cp:
        await cp.install_crds()
        token = await user_token(cp)
        config = cp.kubeconfig(tmp_path / "helm-config")
        with helm_python.Config(kubeconfig_path=config, namespace=NAMESPACE) as helm:
            async with RealWorld.open(cp, tmp_path) as world:

                async def uninstall(*words: str) -> Ended:
                    return await world.command(*DRAIN, *words, token=token, within_seconds=150)

                await asyncio.to_thread(helm.install, CHART, RELEASE, chart_values(world), create_namespace=True)
                cp.controller_token = await cp.service_account_token(SERVICE_ACCOUNT, NAMESPACE)
                await world.apply(other_controllers_claim())
                await world.start_controller()
                for name in ("ws1", "ws2"):
                    await world.apply(node_claim(name))
                await world.apply(node_class())
                await world.apply(node_pool(replicas=1))
                for name in ("ws1", "ws2", "gpu-1"):
                    await ready(world, name)

                dry = await uninstall("--dry-run", "-o", "json")
                planned = json.loads(dry.out)
                assert (dry.code, planned["controller"], planned["nodeClaims"]) == (0, "running", 3), dry.err
                assert (planned["nodes"], planned["finalizers"], planned["agentPools"]) == (3, 7, 3)
                assert (planned["nodePools"], planned["nodeClasses"]) == (1, 1)

                drained = await uninstall()
                assert drained.code == 3, drained.out + drained.err
                # The process runs outside a Pod, so that its identity has no namespace: the one of the Lease is named.
                assert "helm uninstall gpu-provisioner -n kube-system; then run this command again" in drained.err
                assert sorted(world.cloud.pools) == sorted(FOREIGN)
                claims = (await cp.demand("GET", "/apis/karpenter.sh/v1/nodeclaims"))["items"]
                assert [claim["metadata"]["name"] for claim in claims] == ["theirs"]
                for demand in ("karpenter.sh/v1/nodepools", "gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses"):
                    assert (await cp.demand("GET", f"/apis/{demand}"))["items"] == []
                nodes = (await cp.demand("GET", "/api/v1/nodes"))["items"]
                assert {node["metadata"]["labels"]["agentpool"] for node in nodes} == {*FOREIGN}

                for policy in (f"{RELEASE}-nodes", f"{RELEASE}-finalizers"):
                    assert (await cp.request("GET", f"{POLICIES}/{policy}"))[0] == 200, "the removal was under policies"
                await world.stop_controller()
                await asyncio.to_thread(helm.uninstall, RELEASE)
                assert (await cp.request("GET", LEASE))[0] == 200
                ended = await uninstall()
                assert (ended.code, ended.out) == (
                    0,
                    "Nothing remains: 0 NodeClaims, 0 Nodes, 0 finalizers, 0 agent pools, 0 Leases\n",
                ), ended.err
                assert (await cp.request("GET", LEASE))[0] == 404
                assert (await cp.request("GET", "/apis/karpenter.sh/v1/nodeclaims/theirs"))[0] == 200
