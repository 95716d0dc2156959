"""What may still be bought during one decision: the limits of NodePools, and the number of machines."""

from collections.abc import Iterable

from .candidates import Candidate
from .model import ExistingNode, Snapshot
from .resources import times
from .topology import UNLIMITED
from .work import Work

NODES = "nodes"


class Budget:
    """`limits`: what remains, by NodePool and resource, in thousandths. `most`: machines, None for any number.

    `leaving`: machines that no longer count towards the limits.
    """

    def __init__(self, snapshot: Snapshot, leaving: Iterable[ExistingNode] = ()) -> None:
        self.limits = {
            (pool.name, name): limit - pool.used.get(name, 0)
            for pool in snapshot.node_pools
            for name, limit in pool.limits.items()
        }
        for node in leaving:
            for pool, resource in self.limits:
                if pool == node.node_pool:
                    self.limits[pool, resource] += 1000 if resource == NODES else node.capacity.get(resource, 0)
        self.most = snapshot.max_new

    def uses(self, candidate: Candidate) -> dict[tuple[str, str], int]:
        """What one machine counts towards the limits of its NodePool, in thousandths."""
        return {
            (pool, resource): 1000 if resource == NODES else candidate.capacity.get(resource, 0)
            for pool, resource in self.limits
            if pool == candidate.pool.name
        }

    def take(self, candidate: Candidate) -> None:
        """Count a machine."""
        for key, amount in self.uses(candidate).items():
            self.limits[key] -= amount
        if self.most is not None:
            self.most -= 1

    def units(self, work: Work, offered: Iterable[Candidate]) -> int:
        """An upper bound of how many units new machines of these candidates may take, other pods aside."""
        by_pool: dict[str, list[Candidate]] = {}
        for one in offered:
            by_pool.setdefault(one.pool.name, []).append(one)
        found = sum(self._of_pool(work, candidates) for candidates in by_pool.values())
        if self.most is not None and by_pool:
            found = min(found, self.most * max(_carried(work, one) for same in by_pool.values() for one in same))
        return max(0, min(found, UNLIMITED))

    def _of_pool(self, work: Work, candidates: list[Candidate]) -> int:
        """Each limit is divided by the least that a unit uses of it."""
        found = UNLIMITED
        used = [(self.uses(one), _carried(work, one)) for one in candidates]
        for key in used[0][0]:
            if all(uses[key] for uses, _ in used):
                found = min(found, max(self.limits[key] * carried // uses[key] for uses, carried in used))
        return max(0, found)


def _carried(work: Work, candidate: Candidate) -> int:
    """How many units an empty machine takes."""
    count = times(work.requests, candidate.allocatable)
    return UNLIMITED if count is None else count
