"""The chart's aggregated roles on a real API server with the controller that aggregates roles."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import assets
from tests.cluster.charts import COLLECTIONS, VALUES, rendered
from tests.cluster.controlplane import ControlPlane
from tests.wire.kubectl import Kubectl

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]

READ, CHANGE = ("get", "list", "watch"), ("create", "update", "patch", "delete")
ROLES, BINDINGS = COLLECTIONS["ClusterRole"], COLLECTIONS["ClusterRoleBinding"]


def aggregated(**values: Any) -> list[Json]:
    """The chart's aggregated roles."""
    objects = rendered("gpu-provisioner", namespace="default", values={**VALUES, **values})
    return [obj for obj in objects if "aggregate-to-" in str(obj["metadata"]["labels"])]


async def test_roles_aggregate_to_view_edit_and_admin(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """view and edit read claims and node classes, admin changes them too; no role may write a claim's status."""
    async with ControlPlane.start(
        assets.find(), tmp_path_factory.mktemp("roles"), controller_manager=("clusterrole-aggregation-controller",)
    ) as cp:
        await cp.install_crds()
        for role in ("view", "edit", "admin"):
            await cp.demand("POST", BINDINGS, binding(role))
        kubectl = Kubectl(tmp_path, cp.kubeconfig(tmp_path / "config"))

        async def may(who: str, verb: str, *what: str) -> bool:
            resources = what or ("nodeclaims.karpenter.sh",)
            return (await kubectl.run("auth", "can-i", verb, *resources, "--as", who)).out.startswith("yes")

        assert not await may("edit", "create")
        for obj in aggregated():
            await cp.demand("POST", ROLES, obj)
        async with asyncio.timeout(300):
            while not (await may("view", "get") and await may("admin", "create")):  # noqa: ASYNC110 - another's loop
                await asyncio.sleep(0.2)
        for who, changes in (("view", False), ("edit", False), ("admin", True)):
            assert [await may(who, verb) for verb in READ] == [True] * len(READ), who
            assert [await may(who, verb) for verb in CHANGE] == [changes] * len(CHANGE), who
            assert await may(who, "get", "kaitonodeclasses.kaito.sh"), who
            for kind in (
                "nodepools.karpenter.sh",
                "nodeoverlays.karpenter.sh",
                "agentpoolnodeclasses.gpu-provisioner.sh",
            ):
                assert await may(who, "get", kind), (who, kind)
                assert await may(who, "create", kind) is changes, (who, kind)
            assert not await may(who, "patch", "nodeclaims.karpenter.sh", "--subresource=status"), who
            assert not await may(who, "create", "kaitonodeclasses.kaito.sh"), who


async def test_aggregated_roles_can_be_disabled() -> None:
    """One value disables the aggregated roles."""
    assert len(aggregated()) == 2
    assert aggregated(aggregatedRoles={"enabled": False}) == []


def binding(role: str) -> Json:
    """Bind this user to that role in the whole cluster."""
    api = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": f"test-{role}"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api, "kind": "User", "name": role}],
    }
