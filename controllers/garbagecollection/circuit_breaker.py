"""The circuit breaker for inferred removals: a pool without a claim, a claim without a pool, a deleted Node.

If more than max(3, 20 %) of our pools would be removed by inference, those removed in the last ten minutes included,
none is removed (docs/references/rules.md#circuit-breaker). Removals that a user requested or confirmed by name are not
restricted.
"""

from controllers.model.policy import Policy


def allowance(policy: Policy, pools: int) -> int:
    """How many of `pools` may be removed by inference within one window."""
    return max(policy.circuit_breaker_floor, int(policy.circuit_breaker_share * pools))


def tripped(policy: Policy, *, pools: int, removals: int) -> bool:
    """Whether the limit is exceeded. `pools`: pools before any removal; `removals`: candidates and recent removals."""
    return removals > allowance(policy, pools)
