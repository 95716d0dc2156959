"""The NodeClaim of a planned machine: its name, its marks and its requirements."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure.offerings import offerings
from controllers.nodeclass.hash import hash_annotations as hash_of_class
from controllers.nodepool.hash import hash_annotations
from controllers.provisioning.nodeclaims import claim_name, manifest
from controllers.provisioning.solver.solver import solve
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.owner import nodepool_of

from .observed import REGION, T4, TOLERATES, TYPES, node_pool, observe, pod

NAMES = [
    ("the first", "gpu", [], "gpu-1"),
    ("the next", "gpu", ["gpu-1", "gpu-2"], "gpu-3"),
    ("after a gap", "gpu", ["gpu-7"], "gpu-8"),
    ("of another NodePool", "gpu", ["gpu-a-4", "cpu-5", "gpu-1-6"], "gpu-1"),
    ("not a number of ours", "gpu", ["gpu-007", "gpu-x", "gpu-"], "gpu-1"),
    ("of a long NodePool", "n" * 49 + "." + "x" * 100, [], "n" * 49 + "-1"),
]


@pytest.mark.parametrize(("pool", "names", "expected"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_name(pool: str, names: list[str], expected: str) -> None:
    """The number after the highest one of this NodePool, which a process that has not seen the last one repeats."""
    assert claim_name(pool, names) == expected


def test_manifest() -> None:
    """The NodeClaim has what the NodePool's template says, the marks of its NodePool, and all sizes by price."""
    pool = node_pool(requirements=[{"key": "karpenter.azure.com/sku-gpu-count", "operator": "Gt", "values": ["0"]}])
    found = observe(node_pools=(pool,), pods=(pod("p", tolerations=TOLERATES),))
    (machine,) = solve(found.snapshot).machines
    node_class = AgentPoolNodeClass()
    body = manifest(machine, pool, "gpu-1", TYPES.well_known, node_class=node_class)
    meta, spec = body["metadata"], body["spec"]
    assert meta["finalizers"] == ["karpenter.sh/termination"]
    assert meta["labels"] == {
        "team": "ml",
        "karpenter.sh/nodepool": "gpu",
        "gpu-provisioner.sh/agentpoolnodeclass": "default",
    }
    assert meta["annotations"] == {
        "note": "x",
        **hash_annotations(pool),
        **hash_of_class(node_class),
        "karpenter.sh/nodeclaim-min-values-relaxed": "false",
    }
    assert spec["nodeClassRef"] == {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
    assert spec["taints"] == [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    assert spec["expireAfter"] == "720h"
    assert spec["resources"]["requests"]["nvidia.com/gpu"] == "1"
    required = {one["key"]: one for one in spec["requirements"]}
    assert required["node.kubernetes.io/instance-type"]["values"][0] == T4
    assert required["karpenter.azure.com/sku-gpu-count"] == {
        "key": "karpenter.azure.com/sku-gpu-count",
        "operator": "Gt",
        "values": ["0"],
    }
    assert "karpenter.sh/registered" not in required
    claim = msgspec.convert(body, NodeClaim)
    owner = nodepool_of(claim)
    assert owner is not None
    assert (owner.name, owner.uid, owner.block_owner_deletion) == ("gpu", "uid-gpu", True)
    assert offerings(claim, REGION)[0].size == T4


def test_bounds_use_operators_of_every_release() -> None:
    """A bound is written as Gt or Lt, which every release of the CRD has."""
    between = [
        {"key": "karpenter.azure.com/sku-cpu", "operator": "Gte", "values": ["8"]},
        {"key": "karpenter.azure.com/sku-cpu", "operator": "Lte", "values": ["8"]},
        {"key": "size", "operator": "Gte", "values": ["0"]},
        {"key": "rank", "operator": "Lte", "values": ["5"]},
    ]
    pool = node_pool(requirements=between)
    (machine,) = solve(observe(node_pools=(pool,), pods=(pod("p", tolerations=TOLERATES),)).snapshot).machines
    written = [
        (one["key"], one["operator"], one.get("values"))
        for one in manifest(machine, pool, "gpu-1", TYPES.well_known)["spec"]["requirements"]
    ]
    assert ("karpenter.azure.com/sku-cpu", "Gt", ["7"]) in written
    assert ("karpenter.azure.com/sku-cpu", "Lt", ["9"]) in written
    assert ("size", "Exists", None) in written
    assert ("rank", "Lt", ["6"]) in written


CUSTOM = [
    ("one of a list", {"operator": "In", "values": ["b", "a"]}, "a"),
    ("any value", {"operator": "Exists"}, "true"),
    ("any other value", {"operator": "NotIn", "values": ["true", "0"]}, "1"),
    ("above a bound", {"operator": "Gt", "values": ["7"]}, "8"),
    ("below a bound", {"operator": "Lt", "values": ["7"]}, "6"),
    ("none", {"operator": "DoesNotExist"}, None),
]


@pytest.mark.parametrize(("requirement", "value"), [row[1:] for row in CUSTOM], ids=[row[0] for row in CUSTOM])
def test_a_label_of_the_nodepool_with_several_values(requirement: dict[str, Any], value: str | None) -> None:
    """The NodeClaim has one value of it, so that pods that require the label run on its Node."""
    pool = node_pool(requirements=[{"key": "example.com/tier", **requirement}])
    (machine,) = solve(observe(node_pools=(pool,), pods=(pod("p", tolerations=TOLERATES),)).snapshot).machines
    made = manifest(machine, pool, "gpu-1", TYPES.well_known)
    assert made["metadata"]["labels"].get("example.com/tier") == value


def test_labels_of_aks_are_not_written() -> None:
    """AKS sets them itself and refuses them from users; a label that it does not set cannot be had."""
    known = {"key": "kubernetes.azure.com/priority", "operator": "In", "values": ["regular"]}
    pool = node_pool(requirements=[known, {"key": "kubernetes.azure.com/mode", "operator": "Exists"}])
    (machine,) = solve(observe(node_pools=(pool,), pods=(pod("p", tolerations=TOLERATES),)).snapshot).machines
    made = manifest(machine, pool, "gpu-1", TYPES.well_known)
    assert not [key for key in made["metadata"]["labels"] if key.startswith("kubernetes.azure.com")]
    other = node_pool(requirements=[{"key": "kubernetes.azure.com/other", "operator": "Exists"}])
    assert not solve(observe(node_pools=(other,), pods=(pod("p", tolerations=TOLERATES),)).snapshot).machines


def test_the_case_of_a_size() -> None:
    """Azure ignores the case of a size: a NodePool that names one in lower case buys it."""
    size = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4.lower()]}
    pool = node_pool(requirements=[size])
    (machine,) = solve(observe(node_pools=(pool,), pods=(pod("p", tolerations=TOLERATES),)).snapshot).machines
    assert machine.instance_types == (T4,)
