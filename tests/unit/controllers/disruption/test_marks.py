"""Which marks of a disruption command a Node gets and loses, and which NodeClaims a command may mark, as tables."""

from typing import Any

import msgspec
import pytest

from controllers.disruption import indexes
from controllers.disruption.marks import is_abandoned, mark_node, new_id, unmark_node, why_outdated, why_unmarked
from provisioner.api import labels
from provisioner.api.causes import Reason
from provisioner.api.meta import ObjectMeta, OwnerReference, Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim, NodeClassReference
from provisioner.api.nodepool import NodePool
from provisioner.simulator.kube.patches import json_patch
from tests.unit.builders import NOW, claim, node

from .fleet import UP, Fleet

OURS = "gpu-1-10"
DISRUPTED = Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule")
OWN_CLASS = NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="default")
RACK = Taint(key="example.com/rack", effect="PreferNoSchedule")


def of(*taints: Taint, command: str = "", deleting: bool = False, annotated: bool = True) -> Node:
    found = node(taints=taints, deleting=deleting)
    notes = {"a": "b"} if annotated else {}
    notes |= {labels.DISRUPTION_COMMAND: command} if command else {}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=notes))


def patched(before: Node, patch: Any) -> tuple[list[str], str]:
    """The keys of the taints and the command of the Node, as the API server has them after the patch."""
    body = msgspec.to_builtins(before)
    body["metadata"] = {key: value for key, value in body["metadata"].items() if value}
    after = json_patch(body, msgspec.to_builtins(list(patch)))
    taints = [one["key"] for one in after["spec"].get("taints") or ()]
    return taints, (after["metadata"].get("annotations") or {}).get(labels.DISRUPTION_COMMAND, "")


@pytest.mark.parametrize(
    ("before", "marked", "unmarked"),
    [
        (of(), ([DISRUPTED.key], OURS), ([], "")),
        (of(annotated=False), ([DISRUPTED.key], OURS), ([], "")),
        (of(RACK), ([RACK.key, DISRUPTED.key], OURS), ([RACK.key], "")),
        # The taint of a user, or of a removal, is none of ours.
        (of(DISRUPTED), ([DISRUPTED.key], ""), ([DISRUPTED.key], "")),
        (of(DISRUPTED, deleting=True), ([DISRUPTED.key], ""), ([DISRUPTED.key], "")),
        (of(deleting=True), ([], ""), ([], "")),
        # What an earlier command left is taken over.
        (of(DISRUPTED, command="gpu-1-5"), ([DISRUPTED.key], OURS), ([], "")),
        (of(DISRUPTED, command=OURS), ([DISRUPTED.key], OURS), ([], "")),
        (of(command=OURS), ([DISRUPTED.key], OURS), ([], "")),
    ],
)
def test_a_node_loses_what_it_got(before: Node, marked: Any, unmarked: Any) -> None:
    assert patched(before, mark_node(before, OURS, NOW)) == marked
    now = of(*(Taint(key=key, effect="NoSchedule") for key in marked[0]), command=marked[1], deleting=before.deleting)
    assert patched(now, unmark_node(now, OURS)) == unmarked


@pytest.mark.parametrize(
    ("before", "command", "after"),
    [
        (of(DISRUPTED, command="gpu-1-12"), OURS, ([DISRUPTED.key], "gpu-1-12")),
        (of(DISRUPTED, command=OURS, deleting=True), OURS, ([DISRUPTED.key], OURS)),
        # A user has removed one of the two.
        (of(RACK, command=OURS), OURS, ([RACK.key], "")),
        (of(DISRUPTED), OURS, ([DISRUPTED.key], "")),
        # A user has removed the ID from the NodeClaim.
        (of(DISRUPTED), "", ([], "")),
        (of(DISRUPTED, command=OURS), "", ([], "")),
    ],
)
def test_an_undo_removes_the_marks_of_its_command(before: Node, command: str, after: Any) -> None:
    assert patched(before, unmark_node(before, command)) == after


def of_claim(*up: str, uid: str = "u", deleting: bool = False, **annotations: str) -> NodeClaim:
    known = {"protect": labels.DO_NOT_DISRUPT, "command": labels.DISRUPTION_COMMAND}
    return claim(
        name="gpu-1",
        uid=uid,
        up=("Launched", *up),
        deleting=deleting,
        annotations={known[key]: value for key, value in annotations.items()},
    )


@pytest.mark.parametrize(
    ("fresh", "decided", "reason", "why"),
    [
        (of_claim("Drifted"), of_claim("Drifted"), "Drifted", ""),
        (of_claim("Drifted", command=OURS), of_claim("Drifted"), "Drifted", ""),
        (of_claim(), of_claim("Drifted"), "Drifted", "is no longer drifted"),
        (of_claim(), of_claim(), "Underutilized", ""),
        (of_claim(command="gpu-1-5"), of_claim(), "Underutilized", "another command"),
        (of_claim(deleting=True), of_claim(), "Underutilized", "was deleted"),
        (of_claim(uid="v"), of_claim(), "Underutilized", "was deleted"),
        (of_claim(protect="true"), of_claim(), "Underutilized", "do-not-disrupt"),
        (of_claim(protect="false"), of_claim(), "Underutilized", ""),
        (of_claim("Drifted", protect="true"), of_claim("Drifted", protect="true"), "Drifted", ""),
    ],
)
def test_a_command_that_does_not_fit_any_more(fresh: NodeClaim, decided: NodeClaim, reason: Reason, why: str) -> None:
    found = why_outdated(fresh, decided, OURS, reason)
    assert why in found if why else not found


def test_another_version_begins_another_command() -> None:
    later = msgspec.structs.replace(
        of_claim(), metadata=msgspec.structs.replace(of_claim().metadata, resource_version="11")
    )
    assert {new_id(of_claim()), new_id(later)} == {"gpu-1-10", "gpu-1-11"}


def owned(*, label: str = "gpu", owner: str = "p", **annotations: str) -> NodeClaim:
    """A NodeClaim of the NodePool `gpu` with the UID `p`, its label and owner changed."""
    found = claim(more_labels={labels.NODEPOOL: label}, annotations=annotations)
    reference = OwnerReference(api_version="karpenter.sh/v1", kind="NodePool", name="gpu", uid=owner)
    return msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, owner_references=(reference,) if owner else ()),
        spec=msgspec.structs.replace(found.spec, node_class_ref=OWN_CLASS),
    )


MARKED, REPLACEMENT = {labels.DISRUPTION_COMMAND: OURS}, {labels.REPLACEMENT_COMMAND: OURS}


@pytest.mark.parametrize(
    ("node_claim", "pools", "abandoned"),
    [
        (owned(**MARKED), ["p"], False),
        (owned(**REPLACEMENT), ["p"], False),
        (owned(**MARKED), [], True),
        (owned(**REPLACEMENT), ["another"], True),
        # The garbage collector removes the owner when the NodePool is deleted with --cascade=orphan.
        (owned(owner="", **MARKED), [], True),
        (owned(owner="", **MARKED), ["another"], True),
        # A user has edited the label: the machine is not disrupted any more.
        (owned(label="other", **MARKED), ["p"], True),
        # The marks of Karpenter, of a user or of KAITO are none of ours.
        (owned(), [], False),
        (claim(up=("DisruptionReason",)), [], False),
    ],
)
def test_who_continues_a_command(node_claim: NodeClaim, pools: list[str], abandoned: bool) -> None:
    found = [NodePool(metadata=ObjectMeta(name="gpu", uid=uid)) for uid in pools]
    assert is_abandoned(node_claim, found) is abandoned


@pytest.mark.parametrize(
    ("command", "condition", "why"),
    [
        (OURS, True, ""),
        ("", True, f"its annotation {labels.DISRUPTION_COMMAND} was removed"),
        ("gpu-1-11", True, f"its annotation {labels.DISRUPTION_COMMAND} was removed"),
        (OURS, False, "its condition DisruptionReason was removed"),
    ],
)
def test_a_command_without_its_marks_buys_nothing(command: str, condition: bool, why: str) -> None:
    """Whoever removes one of them ends the command."""
    notes = {labels.DISRUPTION_COMMAND: command} if command else {}
    assert why_unmarked(claim(up=("DisruptionReason",) if condition else (), annotations=notes), OURS) == why


@pytest.mark.parametrize(
    ("up", "deleting", "found"),
    [((*UP, "DisruptionReason"), False, True), (UP, False, False), ((*UP, "DisruptionReason"), True, False)],
    ids=["marked", "not marked", "deleting"],
)
def test_the_claims_that_commands_disrupt_are_found_by_an_index(up: Any, deleting: bool, found: bool) -> None:
    (one,) = Fleet().add("a", up=up).claims
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp=NOW if deleting else None)
    values = indexes.disruption_indexes()[indexes.COMMAND](msgspec.structs.replace(one, metadata=meta))
    assert (indexes.MARKED in values) is found
