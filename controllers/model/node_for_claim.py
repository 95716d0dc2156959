"""Which Node is the claim's, among those that bear its pool's name.

One answer for all rules. During a surge (AKS upgrades a pool by adding a machine) two Nodes may stand for
one claim: the one already named in status stays the claim's as long as it lives.
"""

from provisioner.api.node import Node

from .facts import Facts
from .ownership import belongs


def live_nodes(f: Facts) -> tuple[Node, ...]:
    """The claim's Nodes that nobody has asked to go."""
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
    """Nodes under this pool's name that were not born for the claim in charge: leftovers of an earlier machine."""
    claim = f.claim
    return tuple(n for n in f.nodes if claim is None or not belongs(n, claim))
