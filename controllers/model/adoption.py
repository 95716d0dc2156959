"""A claim that a person gave a vanished claim's machine to.

Pure. An annotation `labels.ADOPT` holds if no claim that is there has that UID, and if the machine under this
claim's key bears it; elsewhere the rules do not see it, so that verdicts, registration and removal all agree.
A machine is never moved: the pool's name must be this claim's key. Kubernetes deletes a Node whose owner is gone, and
neither side knows when the other writes: such a deletion is told from a person's by what stands on the Node.

Source: docs/references/kubernetes.md#garbage-collector.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec

from cloudprovider.interface import Instance
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import parse_rfc3339, rfc3339

from .ownership import belongs, marks, owned_by_another

# How much later than the hand-over of a Node a deletion that the collector decided on before may be dated: as long as
# a request may take, and as far as our clock may be behind the API server's.
COLLECTOR_SECONDS = 120.0


def refusal(
    claim: NodeClaim,
    *,
    instance: Instance | None,
    nodes: Iterable[Node],
    living: Callable[[str], NodeClaim | None],
) -> str:
    """Why the adoption that is asked for on this claim does not hold, "" if it does or none is asked for."""
    wanted = claim.metadata.annotations.get(labels.ADOPT, "")
    if wanted in ("", claim.uid):
        return ""
    owner = living(wanted)
    if owner is not None:
        return f"claim {owner.name} is there and has UID {wanted}"
    born_for = {node.metadata.labels.get(labels.CLAIM_UID, "") for node in nodes}
    found = (marks(instance) if instance is not None else frozenset()) | born_for
    if instance is not None and wanted not in found:
        bears = ", ".join(sorted(uid for uid in found if uid)) or "no UID of ours"
        return f"agent pool {instance.name} bears {bears}, not {wanted}"
    return ""


def without(claim: NodeClaim) -> NodeClaim:
    """The claim as the rules see it when its adoption does not hold."""
    kept = {key: value for key, value in claim.metadata.annotations.items() if key != labels.ADOPT}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=kept))


def handed_over(now: datetime) -> dict[str, str]:
    """What is written on a Node together with its new owner."""
    return {labels.HANDED_OVER_AT: rfc3339(now)}


def collected(node: Node, claim: NodeClaim) -> bool:
    """Whether this Node of the claim goes because its former owner is gone: Kubernetes asked for that, and nobody else.

    True while another claim owns it, and if it was asked to go before it was handed over, or just then.
    """
    asked = node.metadata.deletion_timestamp
    if asked is None:
        return False
    at = parse_rfc3339(node.metadata.annotations.get(labels.HANDED_OVER_AT, ""))
    return owned_by_another(node, claim) or (at is not None and asked <= at + timedelta(seconds=COLLECTOR_SECONDS))


def kept(nodes: Iterable[Node], claim: NodeClaim) -> str:
    """What is said of a Node that Kubernetes deletes and our finalizer keeps, "" if there is none."""
    going = next((node for node in nodes if belongs(node, claim) and collected(node, claim)), None)
    if going is None:
        return ""
    return (
        f"Node {going.name} is being deleted, as Kubernetes does when a Node's claim is gone; its pods run on;"
        " delete this claim once its machine may be replaced"
    )
