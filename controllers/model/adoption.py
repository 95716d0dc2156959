"""Adoption: a claim takes over the machine of a deleted claim, whose UID a user writes in its annotation.

The annotation `labels.ADOPT` is valid if no claim has that UID and the machine under this claim's key has it. The rules
do not see an invalid one. The pool's name must be this claim's key; a name that is derived from a UID never is.
Kubernetes' garbage collector deletes a Node whose owner is gone; what is written on the Node distinguishes this from a
deletion by a user. Pure.

Source: docs/references/kubernetes.md#garbage-collector.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from cloudprovider.interface import Instance
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.text import quoted
from provisioner.api.time import parse_rfc3339, rfc3339, shifted

from .ownership import belongs, owned_by_another

# A deletion that Kubernetes' garbage collector decided on before the hand-over of a Node can be dated so much later:
# the time of a request and the difference of two clocks.
COLLECTOR_SECONDS = 120.0


def refusal(
    claim: NodeClaim,
    *,
    instance: Instance | None,
    nodes: Iterable[Node],
    living: Callable[[str], NodeClaim | None],
    pools: Callable[[], Iterable[Instance]],
) -> str:
    """Why this claim's adoption annotation is invalid; "" if it is valid or absent. `pools`: all machines."""
    wanted = claim.metadata.annotations.get(labels.ADOPT, "")
    if wanted in ("", claim.uid):
        return ""
    owner = living(wanted)
    if owner is not None:
        return f"claim {owner.name} is there and has UID {quoted(wanted)}"
    created_for = {node.metadata.labels.get(labels.CLAIM_UID, "") for node in nodes}
    found = (instance.marks if instance is not None else frozenset()) | created_for
    if instance is not None and wanted not in found:
        bears = ", ".join(quoted(uid) for uid in sorted(found) if uid) or "no UID of ours"
        return f"agent pool {instance.name} bears {bears}, not {quoted(wanted)}"
    other = next((pool for pool in pools() if wanted in pool.marks), None) if instance is None else None
    if other is not None:
        return f"agent pool {other.name} has UID {quoted(wanted)}, and cannot be renamed to that of this claim"
    return ""


def without(claim: NodeClaim) -> NodeClaim:
    """The claim without its adoption annotation."""
    kept = {key: value for key, value in claim.metadata.annotations.items() if key != labels.ADOPT}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=kept))


def handed_over(now: datetime) -> dict[str, str]:
    """The annotations of a Node for its new owner."""
    return {labels.HANDED_OVER_AT: rfc3339(now)}


def collected(node: Node, claim: NodeClaim) -> bool:
    """Whether Kubernetes' garbage collector deleted this Node of the claim because its former owner is gone.

    True while another claim owns it, and if it was deleted before the hand-over or shortly after.
    """
    deleted_at = node.metadata.deletion_timestamp
    if deleted_at is None:
        return False
    at = parse_rfc3339(node.metadata.annotations.get(labels.HANDED_OVER_AT, ""))
    return owned_by_another(node, claim) or (at is not None and deleted_at <= shifted(at, COLLECTOR_SECONDS))


def kept(nodes: Iterable[Node], claim: NodeClaim) -> str:
    """The message about a Node that Kubernetes deletes and our finalizer keeps, "" if there is none."""
    going = next((node for node in nodes if belongs(node, claim) and collected(node, claim)), None)
    if going is None:
        return ""
    return (
        f"Node {going.name} is being deleted, as Kubernetes does when a Node's claim is gone; its pods run on;"
        " delete this claim once its machine may be replaced"
    )
