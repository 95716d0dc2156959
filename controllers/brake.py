"""The brake that all inferred removals share.

Promise: what a person asked for is never braked. What we infer (a pool without a claim, a claim without a pool, a Node
somebody deleted) passes only while it stays small: if more than max(3, 20 %) of our pools would go by inference, those
gone in the last ten minutes included, none goes. It trips, it does not trickle (DESIGN rule 6).
Left to others: what counts as a suspicion (`garbage.py`); counting over all keys (`reconciler.py`).
"""

from .policy import Policy


def allowance(policy: Policy, pools: int) -> int:
    """How many of `pools` may go by inference within one window."""
    return max(policy.brake_floor, int(policy.brake_share * pools))


def tripped(policy: Policy, *, pools: int, suspects: int, removed_lately: int) -> bool:
    """Whether too much would go at once. `pools` counts what there was, the lately removed included."""
    return suspects + removed_lately > allowance(policy, pools + removed_lately)
