"""Lower bounds of what new machines for some pods cost, without a decision.

A decision about pods whose bound is above what they cost now need not be made.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from .hosts import HostIndex
from .model import Pod, PodSpec
from .offers import Offers
from .views import View, views


class Bound(NamedTuple):
    """USD an hour. `alone`: of machines for these pods only. `shared`: their part of machines that they share.

    Both are 0 if each pod fits an existing machine, and infinite if a pod fits neither an existing nor a new one.
    """

    alone: float
    shared: float


class Bounds:
    """Bounds for one cluster. Interchangeable pods share the answer, so that all keys must be of one call."""

    def __init__(self, index: HostIndex, offers: Offers) -> None:
        self._index = index
        self._offers = offers
        self._views: dict[int, tuple[PodSpec, View]] = {}
        self._costs: dict[bytes, tuple[float, Mapping[str, float]]] = {}

    def of(self, pods: Collection[Pod], takers: int) -> Bound:
        """The bounds for pods. `takers`: the existing machines that may take them, as a set of the index."""
        counted = Counter(pod.key for pod in pods)
        specs = {pod.key: pod.spec for pod in pods}
        dearest, shares = 0.0, Counter[str]()
        for key, spec in specs.items():
            if self.takers(spec, takers):
                continue
            if key not in self._costs:
                self._costs[key] = self._cost(spec, self._view(spec))
            price, parts = self._costs[key]
            dearest = max(dearest, price)
            shares.update({name: part * counted[key] for name, part in parts.items()})
        if dearest == math.inf:
            return Bound(math.inf, math.inf)
        shared = max(shares.values(), default=0.0)
        return Bound(max(dearest, shared), shared)

    def takers(self, spec: PodSpec, among: int) -> int:
        """The existing machines of a set that a pod fits, other pods to be placed aside."""
        return self._index.fitting(spec, self._view(spec), spec.requests, among)

    def _view(self, spec: PodSpec) -> View:
        """The constraints without any preference."""
        if id(spec) not in self._views:
            self._views[id(spec)] = spec, [*views(spec)][-1]
        return self._views[id(spec)][1]

    def _cost(self, spec: PodSpec, view: View) -> tuple[float, Mapping[str, float]]:
        """The price of the cheapest machine for one pod, and its least part of a price by each resource."""
        offered = [*self._offers.picked(self._offers.fitting(spec, view, spec.requests))]
        parts = {
            name: min((one.price * amount / one.allocatable[name] for one in offered), default=math.inf)
            for name, amount in spec.requests.items()
            if amount > 0
        }
        return min((one.price for one in offered), default=math.inf), parts
