"""Which NodeClaims are machines of NodePools of this controller, as a table."""

import msgspec
import pytest

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_member, why_foreign

OWN = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
KARPENTER = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
KAITO = {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"}
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": "u"}
WORKSPACE = {"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "name": "gpu", "uid": "u"}
GPU = msgspec.convert({"metadata": {"name": "gpu", "uid": "u"}}, NodePool)


@pytest.mark.parametrize(
    ("node_class", "owner", "label", "why"),
    [
        (OWN, POOL, "gpu", ""),
        (KARPENTER, POOL, "gpu", "another controller serves its node class AKSNodeClass"),
        ({**OWN, "group": "karpenter.sh"}, POOL, "gpu", "another controller serves its node class AgentPoolNodeClass"),
        ({}, POOL, "gpu", "another controller serves its node class without a kind"),
        (KAITO, WORKSPACE, "kaito", "another controller serves its node class KaitoNodeClass"),
        (OWN, WORKSPACE, "gpu", "no NodePool owns it"),
        (OWN, None, "gpu", "no NodePool owns it"),
        (OWN, POOL, "other", 'NodePool gpu owns it, but its label karpenter.sh/nodepool is "other"'),
        (OWN, POOL, "", 'NodePool gpu owns it, but its label karpenter.sh/nodepool is ""'),
    ],
)
def test_machines_of_this_controller(
    node_class: dict[str, str], owner: dict[str, str] | None, label: str, why: str
) -> None:
    labels = {"karpenter.sh/nodepool": label} if label else {}
    meta = {"name": "c", "labels": labels, "ownerReferences": [owner] if owner else []}
    claim = msgspec.convert({"metadata": meta, "spec": {"nodeClassRef": node_class}}, NodeClaim)
    assert (why_foreign(claim), is_member(claim, GPU)) == (why, not why)


def test_a_namesake_is_another_nodepool() -> None:
    """The NodePool was deleted, and another one of its name was created."""
    meta = {"name": "c", "labels": {"karpenter.sh/nodepool": "gpu"}, "ownerReferences": [{**POOL, "uid": "old"}]}
    claim = msgspec.convert({"metadata": meta, "spec": {"nodeClassRef": OWN}}, NodeClaim)
    assert not why_foreign(claim)
    assert not is_member(claim, GPU)
