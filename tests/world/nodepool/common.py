"""What the tests of NodePools share."""

from typing import Any

from tests.world.claims import condition
from tests.world.harness import Sim, node_claim

Json = dict[str, Any]
OVERLAYS = "nodeoverlays.karpenter.sh"
SIZE = "node.kubernetes.io/instance-type"
POOLS, CLASSES = "nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh"
REFERENCE = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}


def node_pool(name: str = "gpu", *, reference: Json = REFERENCE, labels: Json | None = None, **spec: Any) -> Json:
    requirements = spec.pop("requirements", [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}])
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"nodeClassRef": reference, "requirements": requirements, **spec.pop("template", {})},
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def node_class(name: str = "default", **spec: Any) -> Json:
    return {
        "apiVersion": "gpu-provisioner.sh/v1alpha1",
        "kind": "AgentPoolNodeClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def claim_of(sim: Sim, name: str, pool: str = "gpu", **spec: Any) -> Json:
    """A claim as provisioning creates it for this NodePool."""
    uid = sim.store.get(POOLS, pool)["metadata"]["uid"]
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool, "uid": uid, "blockOwnerDeletion": True}
    made = node_claim(name, nodeClassRef=REFERENCE, **spec)
    made["metadata"] = {"name": name, "labels": {"karpenter.sh/nodepool": pool}, "ownerReferences": [owner]}
    return made


def shown(sim: Sim, kind: str, key: str, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    found = condition(sim.store.get(key, name), kind)
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


async def until_shown(sim: Sim, kind: str, of: tuple[str, str], status: str, reason: str) -> str:
    """The message of the condition of the object (kind and name), once it has this status and reason."""
    await sim.until(lambda: shown(sim, kind, *of)[:2] == (status, reason), 120, f"{of}: {kind} {status} {reason}")
    return shown(sim, kind, *of)[2]


def overlay(name: str, *sizes: str, **spec: Any) -> Json:
    required = [{"key": SIZE, "operator": "In", "values": list(sizes)}] if sizes else []
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": required, **spec},
    }


def limit_events(sim: Sim) -> list[dict[str, Any]]:
    return sim.store.list("events", fields="involvedObject.kind=NodePool,reason=PoolLimitReached")


async def settle(sim: Sim, seconds: float = 90.0) -> None:
    end = sim.now + seconds
    await sim.until(lambda: sim.now >= end, seconds + 60.0, "some more passes")
