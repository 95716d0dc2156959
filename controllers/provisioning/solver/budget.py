"""What may still be bought during one decision: the limits of NodePools, quotas, and the number of machines.

A quota is counted from the beginning, but limits purchases only once it is known to be scarce: cheaper and dearer
machines with different quotas need not be compared otherwise.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from .candidates import Candidate
from .model import ExistingNode, Snapshot
from .resources import UNLIMITED, times
from .work import Work

NODES = "nodes"
# In place of the name of a NodePool.
QUOTA = ""


class Budget:
    """`limits`: what remains, by NodePool and resource, in thousandths. `most`: machines, None for any number.

    `leaving`: machines that no longer count towards the limits of NodePools; their quota is free only when Azure has
    deleted them. `scarce`: the quotas that count as limits.
    """

    def __init__(self, snapshot: Snapshot, leaving: Iterable[ExistingNode] = (), scarce: Collection[str] = ()) -> None:
        self.limits = {
            (pool.name, name): limit - pool.used.get(name, 0)
            for pool in snapshot.node_pools
            for name, limit in pool.limits.items()
        }
        # The limits of each NodePool, so that those of others are not compared for each machine.
        self._limited: dict[str, list[str]] = {}
        for pool, resource in self.limits:
            self._limited.setdefault(pool, []).append(resource)
        for node in leaving:
            for resource in self._limited.get(node.node_pool, ()):
                self.limits[node.node_pool, resource] += 1000 if resource == NODES else node.capacity.get(resource, 0)
        self._quotas, self._scarce, self._used = snapshot.quotas, scarce, Counter[str]()
        self.limits |= {(QUOTA, name): snapshot.quotas[name].left for name in scarce}
        self.most = snapshot.max_new

    @property
    def left(self) -> Mapping[str, int]:
        """What is left of the scarce quotas."""
        return {name: self.limits[QUOTA, name] for name in self._scarce}

    @property
    def exceeded(self) -> frozenset[str]:
        """The quotas of which the machines need more than is left."""
        return frozenset(
            name for name, used in self._used.items() if name in self._quotas and used > self._quotas[name].left
        )

    def uses(self, candidate: Candidate) -> dict[tuple[str, str], int]:
        """What one machine counts towards the limits of its NodePool, in thousandths, and towards scarce quotas."""
        pool = candidate.pool.name
        return {
            (pool, resource): 1000 if resource == NODES else candidate.capacity.get(resource, 0)
            for resource in self._limited.get(pool, ())
        } | {(QUOTA, name): candidate.quotas.get(name, 0) for name in self._scarce}

    def allows(self, candidate: Candidate) -> bool:
        """Whether one more machine of this candidate is within the limits."""
        if self.most is not None and self.most <= 0:
            return False
        return all(not amount or amount <= self.limits[key] for key, amount in self.uses(candidate).items())

    def room(self, candidate: Candidate) -> dict[str, int]:
        """What is left of the limits of a candidate's NodePool, by resource."""
        pool = candidate.pool.name
        return {resource: max(0, self.limits[pool, resource]) for resource in self._limited.get(pool, ())}

    def widen(self, candidate: Candidate, more: Mapping[str, int]) -> None:
        """Count what a claim may launch beyond the machine that was counted."""
        for name, amount in more.items():
            self.limits[candidate.pool.name, name] -= amount

    def take(self, candidate: Candidate) -> None:
        """Count a machine."""
        for key, amount in self.uses(candidate).items():
            self.limits[key] -= amount
        self._used.update(candidate.quotas)
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
