"""Registration of a claim's Node, and the Registered condition.

One patch adds our finalizer, the claim as owner, and the claim's labels, annotations and taints. Labels of privileged
domains and our own keys are never copied. A finalizer that another client removed is added again.

Source: docs/references/karpenter.md#labels-annotations-and-taints, docs/references/karpenter.md#registration,
docs/references/rules.md#limits-on-cost-and-privilege.
"""

from collections.abc import Mapping

import msgspec

from controllers.model.adoption import handed_over, kept
from controllers.model.conditions import ConditionUpdate, clock_text, was_usable
from controllers.model.deadlines import watched
from controllers.model.facts import Facts
from controllers.model.ownership import KIND, holds_finalizer, owned_by_another
from controllers.model.patches import add_keys, replace_list
from controllers.model.readiness import recorded_taints
from controllers.model.steps import PatchNode, Step, Wait
from controllers.nodeclaim.consistency import scale_command, scaled_to_zero, scaled_to_zero_message
from provisioner.api import labels, reasons
from provisioner.api.conditions import REGISTERED, truncate
from provisioner.api.meta import OwnerReference, Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.restricted_labels import is_copied

from . import readiness
from .launch import launched_since
from .launch_failure import failed_launch_remains

NODE_MANAGER_SECONDS = 10.0
# The API server's message is long; the Node and the remedy must fit behind it.
REFUSAL_BYTES = 110


def step(f: Facts) -> Step | None:
    """Register the Node, or restore our finalizer."""
    claim, node = f.claim, f.node
    if claim is None or node is None or "PatchNode" in f.refused or failed_launch_remains(f, claim):
        return None
    taken = handed_over(f.now) if owned_by_another(node, claim) else {}
    if labels.REGISTERED not in node.metadata.labels or not (taken or node_registered(claim, node)):
        if readiness.wait_for_rules(f) is not None:
            return None
        return readiness.record(f) or PatchNode(
            node=node, patch=_registration_patch(claim, node, taken), why="register the Node with its claim"
        )
    if taken:
        patch = (
            *replace_list("/metadata/ownerReferences", node.metadata.owner_references, _owners(claim, node)),
            *add_keys("/metadata/annotations", node.metadata.annotations, taken),
        )
        return PatchNode(node=node, patch=patch, why="replace the owner of an adopted Node")
    if not holds_finalizer(node):
        finalizers = (*node.metadata.finalizers, labels.FINALIZER)
        patch = replace_list("/metadata/finalizers", node.metadata.finalizers, finalizers)
        return PatchNode(node=node, patch=patch, why="restore the finalizer")
    return None


def _registration_patch(claim: NodeClaim, node: Node, taken: Mapping[str, str]) -> tuple[dict[str, object], ...]:
    meta = node.metadata
    finalizers = meta.finalizers if holds_finalizer(node) else (*meta.finalizers, labels.FINALIZER)
    owners = _owners(claim, node)
    wanted, notes = _copied(claim.metadata.labels, meta.labels), _copied(claim.metadata.annotations, meta.annotations)
    operations = (
        *replace_list("/metadata/finalizers", meta.finalizers, finalizers),
        *replace_list("/metadata/ownerReferences", meta.owner_references, owners),
        *replace_list("/spec/taints", node.spec.taints, _taints(claim, node)),
        *add_keys("/metadata/labels", meta.labels, {**wanted, labels.REGISTERED: "true"}),
        *add_keys("/metadata/annotations", meta.annotations, {**notes, **taken}),
    )
    return tuple(dict(operation) for operation in operations)


def _copied(of_claim: Mapping[str, str], of_node: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations to add to the Node; those that it has are kept."""
    return {key: value for key, value in of_claim.items() if key not in of_node and is_copied(key)}


def _owners(claim: NodeClaim, node: Node) -> tuple[OwnerReference, ...]:
    """The Node's owners with this claim instead of any other: Kubernetes deletes a Node with its former owner."""
    owners = node.metadata.owner_references
    if any(owner.uid == claim.uid for owner in owners):
        return owners
    return (*(owner for owner in owners if (owner.api_version, owner.kind) != KIND), _owner(claim))


def _owner(claim: NodeClaim) -> OwnerReference:
    return OwnerReference(
        api_version=claim.api_version, kind=claim.kind, name=claim.name, uid=claim.uid, block_owner_deletion=True
    )


def _taints(claim: NodeClaim, node: Node) -> tuple[Taint, ...]:
    """The Node's taints without the unregistered one, plus the claim's where no taint has that key and effect.

    Those of readiness rules are among them until the claim is initialized for the first time.
    """
    merged = [taint for taint in node.spec.taints if taint.key != labels.UNREGISTERED_TAINT]
    present = {(taint.key, taint.effect) for taint in merged}
    if node.metadata.labels.get(labels.DO_NOT_SYNC_TAINTS) != "true":
        held = () if was_usable(claim) else recorded_taints(claim)
        for taint in (*claim.spec.taints, *claim.spec.startup_taints, *held):
            if (taint.key, taint.effect) not in present:
                present.add((taint.key, taint.effect))
                # Of a Node's taint the API server accepts fewer times than of a claim's, and sets it where it matters.
                merged.append(msgspec.structs.replace(taint, time_added=None))
    return tuple(merged)


def registered(claim: NodeClaim) -> bool:
    """Whether this claim's Node has been registered."""
    return claim.condition(REGISTERED, "True") is not None


def node_registered(claim: NodeClaim, node: Node) -> bool:
    """Whether this Node is registered: the label alone can come from the labels of its agent pool."""
    owned = any(owner.uid == claim.uid for owner in node.metadata.owner_references)
    return labels.REGISTERED in node.metadata.labels and (owned or registered(claim))


def wait_for_provider_id(f: Facts, claim: NodeClaim) -> Wait | None:
    """Wait for a new Node's providerID, so that one write has both; not for long, if the node manager is slow."""
    node = f.node
    if node is None or not node.cloud_uninitialized or registered(claim):
        return None
    left = NODE_MANAGER_SECONDS - (f.now - node.metadata.creation_timestamp).total_seconds()
    return Wait(after=left, why=f"waiting for the providerID of Node {node.name}") if left > 0 else None


def update_refused(f: Facts, node: Node) -> ConditionUpdate | None:
    """The condition after the API server rejected our patch of the Node, with its message; None if it did not."""
    error = f.refused.get("PatchNode")
    if error is None:
        return None
    message = (
        f"{truncate(error, REFUSAL_BYTES)}: failed to patch Node {node.name}, created"
        f" {clock_text(node.metadata.creation_timestamp)}; see kubectl auth can-i patch nodes"
    )
    return ConditionUpdate(status="Unknown", reason=reasons.NODE_UPDATE_REFUSED, message=message, warning=True)


def pool_failed(f: Facts) -> ConditionUpdate:
    """The condition of a registered claim whose pool failed before it was initialized."""
    message = f"agent pool {f.key} failed before its Node was initialized; see Launched"
    return ConditionUpdate(status="Unknown", reason=reasons.POOL_FAILED, message=message)


def condition(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Registered condition; None before the pool is launched."""
    if failed_launch_remains(f, claim):
        return pool_failed(f) if registered(claim) else None
    node = f.node
    if node is not None and node_registered(claim, node) and holds_finalizer(node):
        return ConditionUpdate(status="True", reason=reasons.REGISTERED)
    if registered(claim):
        return ConditionUpdate(status="True", reason=reasons.REGISTERED)
    since = launched_since(f, claim)
    if node is not None:
        rejected = update_refused(f, node)
        limit = f.policy.registration_seconds
        return rejected and watched(rejected, name="registration", since=since or f.now, now=f.now, limit_seconds=limit)
    if len(f.live_nodes) > 1:
        names = ", ".join(node.name for node in f.live_nodes[:2])
        message = f"Invariant violated, matched multiple nodes: {names}; {scale_command(f.key)}, or delete this claim"
        return ConditionUpdate(status="False", reason=reasons.MULTIPLE_NODES_FOUND, message=message, warning=True)
    if since is None:
        return None
    if deleting := kept(f.nodes, claim):
        return ConditionUpdate(status="Unknown", reason=reasons.NODE_DELETING, message=deleting, warning=True)
    message = (
        f"Node not registered with cluster; agent pool {f.key} has been running since {clock_text(since)};"
        " if this persists, check the pool's provisioning state, subnet and outbound access"
    )
    if f.instance is not None and scaled_to_zero(f.instance):
        message = f"Node not registered with cluster; {scaled_to_zero_message(f.instance)}"
    waiting = ConditionUpdate(status="Unknown", reason=reasons.NODE_NOT_FOUND, message=message)
    limit = f.policy.registration_seconds
    return watched(waiting, name="registration", since=since, now=f.now, limit_seconds=limit)
