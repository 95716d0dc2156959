"""Lower bounds of what new machines for some pods cost, without a decision.

A decision about pods whose bound is above what they cost now need not be made.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from .host_index import HostIndex
from .model import Pod, PodSpec
from .offers import Offers
from .views import PodViews, View


class Bound(NamedTuple):
    """USD an hour. `alone`: of machines for these pods only. `shared`: their part of machines that they share.

    Both are 0 if each pod fits an existing machine, and infinite if a pod fits neither an existing nor a new one.
    `machines`: how many there are at least if they cost no more than `alone`.
    """

    alone: float
    shared: float
    machines: int = 0


class _Cost(NamedTuple):
    """Of one pod: the price of the cheapest machine, and by resource the least part of a price.

    `largest`: how much of a resource the largest machine has for which the part is the least.
    """

    price: float
    parts: Mapping[str, float]
    largest: Mapping[str, int]


class Bounds:
    """Bounds for one cluster. Interchangeable pods share the answer, so that all keys must be of one call."""

    def __init__(self, index: HostIndex, offers: Offers) -> None:
        self._index = index
        self._offers = offers
        self._views: dict[int, tuple[PodSpec, View]] = {}
        self._costs: dict[bytes, _Cost] = {}
        # Pods of several Deployments often fit the same machines.
        self._alike: dict[Hashable, _Cost] = {}

    def of(self, pods: Collection[Pod], takers: int) -> Bound:
        """The bounds for pods. `takers`: the existing machines that may take them, as a set of the index."""
        counted = Counter(pod.key for pod in pods)
        specs = {pod.key: pod.spec for pod in pods}
        dearest = 0.0
        shares, amounts, largest = dict[str, float](), Counter[str](), dict[str, int]()
        for key, spec in specs.items():
            if self.takers(spec, takers):
                continue
            if key not in self._costs:
                self._costs[key] = self._least([self._cost(one, self._view(one)) for one in spec.choices])
            cost = self._costs[key]
            dearest = max(dearest, cost.price)
            for name, part in cost.parts.items():
                shares[name] = shares.get(name, 0.0) + part * counted[key]
                amounts[name] += spec.requests[name] * counted[key]
                largest[name] = max(largest.get(name, 0), cost.largest[name])
        if dearest == math.inf:
            return Bound(math.inf, math.inf)
        shared = max(shares.values(), default=0.0)
        # At this price each machine is full of such a resource, and has it at the least price.
        scarce = [name for name, part in shares.items() if part and part == shared >= dearest]
        machines = min((-(-amounts[name] // largest[name]) for name in scarce), default=bool(dearest))
        return Bound(max(dearest, shared), shared, machines)

    def takers(self, spec: PodSpec, among: int) -> int:
        """The existing machines of a set that a pod fits, other pods to be placed aside."""
        found = 0
        for one in spec.choices:
            found |= self._index.fitting(one, self._view(one), one.requests, among)
        return found

    def _view(self, spec: PodSpec) -> View:
        """The constraints without any preference."""
        if id(spec) not in self._views:
            self._views[id(spec)] = spec, PodViews(spec)[-1]
        return self._views[id(spec)][1]

    @staticmethod
    def _least(costs: Sequence[_Cost]) -> _Cost:
        """With alternatives of devices no part of a price is sure."""
        return costs[0] if len(costs) == 1 else _Cost(min(one.price for one in costs), {}, {})

    def _cost(self, spec: PodSpec, view: View) -> _Cost:
        found = self._offers.fitting(spec, view, spec.requests)
        key = found, frozenset(spec.requests.items())
        if key not in self._alike:
            offered = [*self._offers.picked(found)]
            parts, largest = dict[str, float](), dict[str, int]()
            for name, amount in spec.requests.items():
                if amount > 0:
                    least = min((one.price / one.allocatable[name] for one in offered), default=math.inf)
                    best = [one for one in offered if one.price / one.allocatable[name] <= least * (1 + 1e-9)]
                    parts[name] = min((one.price * amount / one.allocatable[name] for one in offered), default=math.inf)
                    largest[name] = max((one.allocatable[name] for one in best), default=1)
            price = min((one.price for one in offered), default=math.inf)
            self._alike[key] = _Cost(price, parts, largest)
        return self._alike[key]
