"""Whether a key needs the short interval between LISTs of agent pools.

It does while the next answer can change the plan. A claim that waits for capacity or for a user costs no reads
(docs/references/rules.md#arm-request-budget).
"""

from controllers.model.conditions import launched
from controllers.model.facts import Facts
from controllers.model.ownership import belongs


def in_flight(f: Facts) -> bool:
    """Whether it does because of its claim or Node; the inventory itself knows of pools in transition."""
    claim = f.claim
    if f.candidate is not None:
        return True
    if claim is None:
        return False
    unwell = any(belongs(node, claim) and (node.deleting or not node.ready) for node in f.nodes)
    return claim.deleting or unwell or (launched(claim) and not claim.status.node_name)
