"""The circuit breaker that all inferred removals share.

What a person asked for is never braked. What we infer (a pool without a claim, a claim without a pool, a Node somebody
deleted) passes only while it stays small: if more than max(3, 20 %) of our pools would go by inference, those gone in
the last ten minutes included, none goes. It trips, it does not trickle (docs/references/rules.md#circuit-breaker). What
a person confirmed by name passes, and lets nothing else pass.
"""

from controllers.model.policy import Policy


def counts_toward_limit(cause: str) -> bool:
    """Whether removals for this cause count toward the limit; a machine that Azure reports gone does not."""
    return cause != "spot-evicted"


def allowance(policy: Policy, pools: int) -> int:
    """How many of `pools` may go by inference within one window."""
    return max(policy.circuit_breaker_floor, int(policy.circuit_breaker_share * pools))


def tripped(policy: Policy, *, pools: int, going: int) -> bool:
    """Whether too much would go at once. `pools` counts what there was, `going` what would go or lately went."""
    return going > allowance(policy, pools)
