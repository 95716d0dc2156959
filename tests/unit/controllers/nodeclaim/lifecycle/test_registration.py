"""What a Node has once its NodeClaim has registered it, as a table."""

from typing import Any

import msgspec
import pytest

from controllers.model.steps import PatchNode
from controllers.node.termination.cordon import cordon
from controllers.nodeclaim.lifecycle.registration import step
from provisioner.api import labels
from provisioner.api.meta import OwnerReference, Taint
from provisioner.api.node import Node
from provisioner.simulator.kube.patches import json_patch
from tests.unit.builders import NODE, NOW, claim, facts, instance, node

SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
CACHE = Taint(key="example.com/cache", effect="NoSchedule")
BORN = Taint(key=labels.UNREGISTERED_TAINT, effect="NoExecute")
OTHER = Taint(key="example.com/other", effect="NoSchedule")


def new(
    *taints: Taint, notes: dict[str, str] | None = None, owned: bool = False, of_node: dict[str, str] | None = None
) -> Node:
    """A Node that has just joined."""
    found = node(taints=taints, more_labels=of_node)
    known = {
        key: value for key, value in found.metadata.labels.items() if key not in {labels.REGISTERED, labels.INITIALIZED}
    }
    owner = OwnerReference(api_version="karpenter.sh/v1", kind="NodeClaim", name="x", uid="uid-1")
    owners = (owner,) if owned else ()
    meta = msgspec.structs.replace(
        found.metadata, labels=known, annotations=notes or {}, owner_references=owners, finalizers=()
    )
    return msgspec.structs.replace(found, metadata=meta)


def patched(found: Node, patch: Any) -> dict[str, Any]:
    """The Node as the API server has it after the patch."""
    body = msgspec.to_builtins(found)
    body["metadata"] = {key: value for key, value in body["metadata"].items() if value}
    after: dict[str, Any] = json_patch(body, msgspec.to_builtins(list(patch)))
    return after


def registered(found: Node, **of_claim: Any) -> dict[str, Any]:
    made = claim(up=("Launched",), node_name=NODE, startup_taints=(CACHE,), **of_claim)
    done = step(facts(claims=(made,), nodes=(found,), instance=instance()))
    assert isinstance(done, PatchNode)
    return patched(found, done.patch)


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        (new(), ["sku", CACHE.key]),
        (new(BORN), ["sku", CACHE.key]),
        (new(OTHER, BORN), [OTHER.key, "sku", CACHE.key]),
        (new(Taint(key="sku", value="other", effect="NoSchedule")), ["sku", CACHE.key]),
        (new(of_node={labels.DO_NOT_SYNC_TAINTS: "false"}), ["sku", CACHE.key]),
        (new(of_node={labels.DO_NOT_SYNC_TAINTS: "true"}), []),
        (new(OTHER, BORN, of_node={labels.DO_NOT_SYNC_TAINTS: "true"}), [OTHER.key]),
    ],
    ids=["none yet", "unregistered", "others", "the same key", "another word", "not synced", "others, not synced"],
)
def test_taints(found: Node, keys: list[str]) -> None:
    """Those of the NodeClaim, its startup taints too, unless the Node's label says that its owner sets them."""
    assert [one["key"] for one in registered(found)["spec"].get("taints", [])] == keys


def test_labels_annotations_and_owner() -> None:
    """Of the NodeClaim; what the Node has already is kept."""
    found = new(of_node={"team": "a"}, notes={"example.com/kept": "node"})
    notes = {"example.com/kept": "claim", "example.com/note": "x"}
    meta = registered(found, more_labels={"team": "b", "rack": "1"}, annotations=notes)["metadata"]
    assert (meta["labels"]["team"], meta["labels"]["rack"], meta["labels"][labels.REGISTERED]) == ("a", "1", "true")
    assert meta["annotations"] == {"example.com/kept": "node", "example.com/note": "x"}
    assert [(one["kind"], one["uid"]) for one in meta["ownerReferences"]] == [("NodeClaim", "uid-1")]
    assert meta["finalizers"] == [labels.FINALIZER]


def test_an_owner_that_is_there_is_kept() -> None:
    meta = registered(new(owned=True))["metadata"]
    assert [(one["name"], one["uid"]) for one in meta["ownerReferences"]] == [("x", "uid-1")]


def test_a_node_that_goes_gets_no_traffic() -> None:
    """Load balancers leave it out, and kube-scheduler."""
    after = patched(node(), cordon(node(), NOW))
    assert after["metadata"]["labels"][labels.EXCLUDE_BALANCERS] == "karpenter"
    assert labels.DISRUPTED_TAINT in [one["key"] for one in after["spec"]["taints"]]
