"""The examples for pods on the real API server, with kube-scheduler: pods become machines.

The solver and kube-scheduler decide independently. Each pod must be bound to the machine that was created for it, and
the intruder to none.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.api import labels
from tests.world.claims import EXAMPLES

from .controlplane import ControlPlane
from .realstore import path_of
from .realworld import CLAIMS, RealWorld
from .scheduler import kube_scheduler
from .stories import WHOLE

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]
RESOURCES = {
    "AgentPoolNodeClass": "agentpoolnodeclasses.gpu-provisioner.sh",
    "NodePool": "nodepools.karpenter.sh",
    "Pod": "pods",
}
UNTOLERATED = "Failed to schedule pod, NodePool gpu: did not tolerate taint (taint=sku=gpu:NoSchedule)"


def manifests(stem: str) -> list[Json]:
    return list(yaml.safe_load_all((EXAMPLES / "pods" / f"{stem}.yaml").read_text(encoding="utf-8")))


def pod(world: RealWorld, name: str) -> Json:
    return world.store.get("pods", name, "default") or {}


def messages(world: RealWorld, name: str) -> set[str]:
    """The messages of the Events of a pod."""
    fields = f"involvedObject.kind=Pod,involvedObject.name={name}"
    return {event["message"] for event in world.store.list("events", "default", fields=fields)}


async def test_pods_are_bound_where_the_solver_placed_them(cluster: ControlPlane, tmp_path: Path) -> None:
    """Three pods get a machine each and run there; after the NodePool is deleted nothing remains."""
    names = ("trainer", "trainer-b", "trainer-c")
    async with kube_scheduler(cluster), RealWorld.open(cluster, tmp_path) as world:
        await world.start_controller()
        (trainer,), (intruder,) = manifests("trainer"), manifests("intruder")
        more = [{**trainer, "metadata": {**trainer["metadata"], "name": name}} for name in names]
        for obj in (*manifests("node-pool"), *more, intruder):
            world.store.create(RESOURCES[obj["kind"]], obj, "default" if obj["kind"] == "Pod" else "")

        def running() -> bool:
            return all(pod(world, name)["status"]["phase"] == "Running" for name in names)

        await world.until(running, 120, "the pods run")
        claims = {claim["metadata"]["name"]: claim for claim in world.store.list(CLAIMS)}
        assert len(claims) == len(names)
        node_of = {claim["status"]["nodeName"]: name for name, claim in claims.items()}
        bound = {name: pod(world, name)["spec"]["nodeName"] for name in names}
        assert sorted(bound.values()) == sorted(node_of)
        for node in node_of:
            found = world.store.get("nodes", node)
            assert found is not None
            assert found["metadata"]["labels"][labels.ZONE] == "westeurope-1"
        assert all(any(m.startswith("Pod should schedule on: nodeclaim/") for m in messages(world, n)) for n in names)
        assert UNTOLERATED in messages(world, "intruder")
        assert not pod(world, "intruder")["spec"].get("nodeName")

        for name in names:
            world.store.delete("pods", name, "default")
        await world.until(lambda: not any(pod(world, name) for name in names), 60, "the pods are gone")
        await cluster.demand("DELETE", path_of("nodepools.karpenter.sh", "gpu"))
        await world.until(lambda: not world.store.list(CLAIMS), 120, "the claims are gone")
        await world.settled()
        for claim in claims.values():
            assert world.audit_log.deletion_order(claim["metadata"]["uid"]) == WHOLE
        assert pod(world, "intruder")["status"]["phase"] == "Pending"
