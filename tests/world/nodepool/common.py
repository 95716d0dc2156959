"""What the tests of NodePools share."""

from typing import Any

from tests.world.harness import Sim, node_claim

Json = dict[str, Any]
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
