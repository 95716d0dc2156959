"""Whether a key needs the inventory's full attention: a LIST every few seconds instead of every minute.

True exactly while the cloud's next answer may change what we do; a claim that merely waits for capacity or a
person costs no reads (docs/references/rules.md#arm-request-budget).
"""

from controllers.model.conditions import launched
from controllers.model.facts import Facts
from controllers.model.ownership import belongs


def in_flight(f: Facts) -> bool:
    """Pools being made or removed the inventory sees itself; this is about what only the rules know."""
    claim = f.claim
    if f.candidate is not None:
        return True
    if claim is None:
        return False
    unwell = any(belongs(node, claim) and (node.deleting or not node.ready) for node in f.nodes)
    return claim.deleting or unwell or (launched(claim) and not claim.status.node_name)
