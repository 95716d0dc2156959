"""How many agent pools there may be and how many may be asked for a minute: our own caps, and AKS's.

Nothing is asked for past a limit; who waits for one says which, how much of it is used, and its place in line.

Source: docs/references/rules.md#limits-on-cost-and-privilege, docs/references/agent-pools.md#limits.
"""

from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from provisioner.api import reasons


def blocking_condition(f: Facts) -> ConditionUpdate | None:
    """The Launched condition of a claim that must wait for its turn, with its place in line; None: it is its turn."""
    counts = f.counts
    limit, remedy = _pool_limit(f)
    if counts.pools + counts.place > limit:
        return ConditionUpdate(
            status="Unknown",
            reason=reasons.POOL_LIMIT_REACHED,
            message=f"{counts.pools} of {limit} agent pools are in use;"
            f" place {counts.place} of {counts.waiting} in line; {remedy}",
            recheck=60.0,
        )
    most = f.cluster.max_nodes if f.cluster is not None else None
    if most is not None and counts.nodes + counts.place > most:
        return ConditionUpdate(
            status="Unknown",
            reason=reasons.NODE_LIMIT_REACHED,
            message=f"{counts.nodes} of {most} Nodes, all that the cluster's network plugin allows, are in use; place"
            f" {counts.place} of {counts.waiting} in line; delete claims or scale other agent pools down",
            recheck=60.0,
        )
    rate = f.policy.max_creates_per_minute
    if rate is not None and counts.creates_last_minute + counts.place > rate:
        return ConditionUpdate(
            status="Unknown",
            reason=reasons.CREATE_RATE_LIMITED,
            message=f"at most {rate} agent pools are created a minute (--max-creates-per-minute); place {counts.place}"
            f" of {counts.waiting} in line",
            recheck=max(0.05, counts.next_create_in),
        )
    return None


def _pool_limit(f: Facts) -> tuple[int, str]:
    """How many agent pools of ours may exist, and what to do there: as set, never more than AKS leaves us.

    Unless a number is set, a headroom is left to others.
    """
    most = f.cluster.max_pools if f.cluster is not None else 100
    foreign = f.counts.all_pools - f.counts.pools
    if f.policy.max_agent_pools is not None and f.policy.max_agent_pools <= most - foreign:
        return f.policy.max_agent_pools, "delete claims or raise --max-agent-pools"
    others = foreign if f.policy.max_agent_pools is not None else max(f.policy.pool_headroom, foreign)
    return max(0, most - others), f"AKS allows {most} a cluster, {others} are left to others: delete claims"
