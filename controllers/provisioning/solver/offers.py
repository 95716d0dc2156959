"""The candidates of one decision as bit sets, in the order of prices.

Which candidates a group of pods may use is asked for every group, again for every machine and every domain. Pods with
the same constraints share the answer, and enough room is a comparison with sorted amounts.
"""

from collections.abc import Hashable, Iterator, Mapping

from .bitsets import AtLeast, bits, of
from .candidates import Candidate, Compatible, compatible
from .model import NodePool, PodSpec, Resources
from .views import View


class Offers:
    """Bit i stands for `candidates[i]`; the lowest bit of a set is its cheapest candidate."""

    def __init__(self, candidates: tuple[Candidate, ...], well_known: frozenset[str]) -> None:
        self.candidates = candidates
        self.well_known = well_known
        self._every = (1 << len(candidates)) - 1
        self._compatible: dict[Hashable, tuple[int, Mapping[int, Compatible]]] = {}
        self._roomy: dict[str, AtLeast] = {}
        self._of_pool: dict[str, int] = {}
        weights: dict[int, int] = {}
        for index, one in enumerate(candidates):
            self._of_pool[one.pool.name] = self._of_pool.get(one.pool.name, 0) | 1 << index
            weights[one.pool.weight] = weights.get(one.pool.weight, 0) | 1 << index
        self._weights = sorted(weights.items(), reverse=True)

    def of_pool(self, pool: NodePool) -> int:
        """The candidates of a NodePool."""
        return self._of_pool.get(pool.name, 0)

    def compatible(self, spec: PodSpec, view: View) -> tuple[int, Mapping[int, Compatible]]:
        """The candidates that a pod fits, resources aside, and how it fits each of them."""
        key = view.key, spec.tolerations, spec.host_ports
        found = self._compatible.get(key)
        if found is None:
            each = {
                index: fit
                for index, one in enumerate(self.candidates)
                if (fit := compatible(one, spec, view, self.well_known)) is not None
            }
            found = self._compatible[key] = of(each), each
        return found

    def roomy(self, requests: Resources) -> int:
        """The candidates whose empty machine has these resources."""
        found = self._every
        for name, amount in requests.items():
            if amount > 0:
                if name not in self._roomy:
                    self._roomy[name] = AtLeast([one.allocatable.get(name, 0) for one in self.candidates])
                found &= self._roomy[name].of(amount)
        return found

    def fitting(self, spec: PodSpec, view: View, requests: Resources) -> int:
        """The candidates whose empty machine takes a pod with these requests."""
        return self.compatible(spec, view)[0] & self.roomy(requests)

    def weight(self, found: int, below: int | None = None) -> int | None:
        """The largest weight of NodePools of a set of candidates; only weights below `below` count."""
        return next(
            (weight for weight, mask in self._weights if mask & found and (below is None or weight < below)), None
        )

    def picked(self, found: int) -> Iterator[Candidate]:
        """The candidates of a set, cheapest first."""
        return (self.candidates[index] for index in bits(found))
