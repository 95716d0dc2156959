"""How many agent pools there may be and how many may be asked for a minute: our own caps, and AKS's.

Promise: nothing is asked for past a limit; who waits for one says which, how much of it is used, and its place in line.
Left to others: the line itself and the counts (`fleet.py`), who is in it (`launch.in_line`).

Source: DESIGN rule 13; aks-arm.md §4 (100 pools a cluster, `maxAgentPools`).
"""

from .facts import Facts
from .judgement import Judgement


def pool_limit(f: Facts) -> int:
    """How many agent pools of ours may exist: as set, else what the cluster leaves us above a headroom."""
    if f.policy.max_agent_pools is not None:
        return f.policy.max_agent_pools
    most = f.cluster.max_pools if f.cluster is not None else 100
    foreign = f.fleet.all_pools - f.fleet.pools
    return max(0, most - max(f.policy.pool_headroom, foreign))


def obstacle(f: Facts) -> Judgement | None:
    """The Launched condition of a claim that must wait for its turn, with its place in line; None: it is its turn."""
    limit, fleet = pool_limit(f), f.fleet
    if fleet.pools + fleet.place > limit:
        return Judgement(
            status="Unknown",
            reason="PoolLimitReached",
            message=f"{fleet.pools} of {limit} agent pools are in use; place {fleet.place} of {fleet.waiting} in line;"
            " delete claims or raise --max-agent-pools",
            recheck=60.0,
        )
    rate = f.policy.max_creates_per_minute
    if rate is not None and fleet.creates_last_minute + fleet.place > rate:
        return Judgement(
            status="Unknown",
            reason="CreateRateLimited",
            message=f"at most {rate} agent pools are created a minute (--max-creates-per-minute); place {fleet.place}"
            f" of {fleet.waiting} in line",
            recheck=max(0.05, fleet.next_create_in),
        )
    return None
