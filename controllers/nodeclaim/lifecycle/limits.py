"""Limits on the number of agent pools and on creations per minute: our own and those of AKS.

Nothing is created above a limit; a waiting claim names the limit, its use, and the claim's position in the queue.

Source: docs/references/rules.md#limits-on-cost-and-privilege, docs/references/agent-pools.md#limits.
"""

from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from controllers.model.policy import Policy
from provisioner.api import reasons

# Nothing was created in the last minute, and yet claims before it are queued: only their changes make room for it.
WITHOUT_CREATES_SECONDS = 5.0


def blocking_condition(f: Facts) -> ConditionUpdate | None:
    """The Launched condition of a claim that a limit blocks, with its position in the queue; None if none does."""
    counts = f.counts
    limit, remedy = _pool_limit(f)
    if counts.pools + counts.place > limit:
        return ConditionUpdate(
            status="Unknown",
            reason=reasons.POOL_LIMIT_REACHED,
            message=f"{counts.pools} of {limit} agent pools are in use;"
            f" position {counts.place} of {counts.waiting} in the queue; {remedy}",
            recheck=60.0,
        )
    most = f.cluster.max_nodes if f.cluster is not None else None
    if most is not None and counts.nodes + counts.place > most:
        return ConditionUpdate(
            status="Unknown",
            reason=reasons.NODE_LIMIT_REACHED,
            message=f"{counts.nodes} of {most} Nodes, the limit of the cluster's network plugin, are in use; position"
            f" {counts.place} of {counts.waiting} in the queue; delete claims or scale other agent pools down",
            recheck=60.0,
        )
    rate = f.policy.max_creates_per_minute
    if counts.creates_last_minute + counts.place > rate:
        return ConditionUpdate(
            status="Unknown",
            reason=reasons.CREATE_RATE_LIMITED,
            message=f"at most {rate} agent pools are created per minute (--max-creates-per-minute);"
            f" position {counts.place} of {counts.waiting} in the queue",
            recheck=max(0.05, counts.next_create_in) if counts.creates_last_minute else WITHOUT_CREATES_SECONDS,
        )
    return None


def exceeded(f: Facts) -> str:
    """The limit that is exceeded although one machine of ours less is counted before another one; "" if none is."""
    counts, (limit, _) = f.counts, _pool_limit(f)
    if counts.pools > limit:
        return f"{counts.pools} of {limit} agent pools are in use"
    most = f.cluster.max_nodes if f.cluster is not None else None
    if most is not None and counts.nodes > most:
        return f"{counts.nodes} of {most} Nodes, the limit of the cluster's network plugin, are in use"
    return ""


def _pool_limit(f: Facts) -> tuple[int, str]:
    """The limit on our agent pools and its remedy: `--max-agent-pools`, capped by what AKS and other pools leave.

    Without the option, a headroom is reserved for other pools.
    """
    most = f.cluster.max_pools if f.cluster is not None else 100
    foreign = f.counts.all_pools - f.counts.pools
    limit = pool_limit(f.policy, max_pools=most, foreign=foreign)
    if limit == f.policy.max_agent_pools:
        return limit, "delete claims or raise --max-agent-pools"
    return limit, f"AKS allows {most} per cluster, {most - limit} are reserved for other pools: delete claims"


def pool_limit(policy: Policy, *, max_pools: int, foreign: int) -> int:
    """How many agent pools of ours a cluster may have that has `foreign` other ones, of `max_pools` in all."""
    if policy.max_agent_pools is not None:
        return max(0, min(policy.max_agent_pools, max_pools - foreign))
    return max(0, max_pools - max(policy.pool_headroom, foreign))
