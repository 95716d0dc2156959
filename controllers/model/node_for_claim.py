"""The Node of a claim, among those with its pool's label.

During a surge (AKS upgrades a pool by adding a machine) two Nodes can belong to one claim: the one in its status
remains the claim's while it exists.
"""

from provisioner.api.node import Node

from .facts import Facts
from .ownership import belongs


def live_nodes(f: Facts) -> tuple[Node, ...]:
    """The claim's Nodes without a deletionTimestamp."""
    claim = f.claim
    return tuple(n for n in f.nodes if claim is not None and belongs(n, claim) and not n.deleting)


def node_for_claim(f: Facts) -> Node | None:
    """The claim's Node, or None if there is none, or more than one and none of them is known already."""
    candidates = live_nodes(f)
    known = [n for n in candidates if f.claim is not None and n.name == f.claim.status.node_name]
    if known:
        return known[0]
    return candidates[0] if len(candidates) == 1 else None


def unrelated_nodes(f: Facts) -> tuple[Node, ...]:
    """Nodes with this pool's label that were not created for the claim in charge."""
    claim = f.claim
    return tuple(n for n in f.nodes if claim is None or not belongs(n, claim))
