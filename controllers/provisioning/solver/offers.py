"""The candidates of one decision as bit sets, in the order of prices.

Which candidates a group of pods may use is asked for every group, again for every machine and every domain. Pods with
the same constraints share the answer, and enough room is a comparison with sorted amounts.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy

from provisioner.api.labels import INSTANCE_TYPE
from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements, distinct
from provisioner.api.taints import untolerated
from provisioner.api.value_sets import one_of

from .bitsets import AtLeast, bits, of
from .candidates import Candidate
from .host_room import PortUse
from .label_index import LabelIndex
from .model import Misfits, NodePool, PodSpec, Resources
from .views import View
from .work import Work


class Offers:
    """Bit i stands for `candidates[i]`; the lowest bit of a set is its cheapest candidate."""

    def __init__(self, candidates: tuple[Candidate, ...], well_known: frozenset[str]) -> None:
        self.candidates = candidates
        self.well_known = well_known
        self._every = (1 << len(candidates)) - 1
        self._excluded: Mapping[int, int] = {}
        # The labels of a NodePool's types may be missing in the requirements of a candidate: all count as planned.
        self._labels = LabelIndex([one.requirements for one in candidates], self._every, well_known)
        self._allowed: dict[Hashable, int] = {}
        self._tolerated: dict[tuple[int, bool], tuple[object, int]] = {}
        self._ports = PortUse((1 << i, one.host_ports) for i, one in enumerate(candidates) if one.host_ports)
        self._kinds: dict[tuple[int, tuple[str, ...]], Sequence[Requirements]] = {}
        self._open: dict[Hashable, Mapping[int, Requirements]] = {}
        self._misfits: dict[Hashable, int] = {}
        self._roomy: dict[str, AtLeast] = {}
        self._of_pool: dict[str, int] = {}
        self._tainted: dict[tuple[Taint, ...], int] = {}
        weights: dict[int, int] = {}
        for index, one in enumerate(candidates):
            self._tainted[one.taints] = self._tainted.get(one.taints, 0) | 1 << index
            self._of_pool[one.pool.name] = self._of_pool.get(one.pool.name, 0) | 1 << index
            weights[one.pool.weight] = weights.get(one.pool.weight, 0) | 1 << index
        self._weights = sorted(weights.items(), reverse=True)

    def of_pool(self, pool: NodePool) -> int:
        """The candidates of a NodePool."""
        return self._of_pool.get(pool.name, 0)

    def without(self, excluded: Mapping[int, int]) -> "Offers":
        """The same offers, without the candidates of a set for the pods of some specs, by their identity."""
        made = copy(self)
        made.exclude(excluded)
        return made

    def exclude(self, excluded: Mapping[int, int]) -> None:
        """Exclude these candidates, and no others, for the pods of these specs."""
        self._excluded = excluded

    def alike(self, candidate: Candidate) -> int:
        """The candidates of the same NodePool and instance type."""
        return self._labels.allowing({INSTANCE_TYPE: one_of((candidate.type_name,))}) & self.of_pool(candidate.pool)

    def compatible(self, spec: PodSpec, view: View) -> int:
        """The candidates that a pod fits, resources aside."""
        if view.key not in self._allowed:
            self._allowed[view.key] = self._labels.allowing_any(view.alternatives)
        found = self._allowed[view.key] & self._tolerating(spec, view)
        found &= ~(self._refused(spec.misfits) | self._excluded.get(id(spec), 0))
        return found & ~self._ports.taken(spec.host_ports) if spec.host_ports else found

    def _refused(self, misfits: Misfits) -> int:
        """The candidates that did not take such a pod before; all while none is to be bought."""
        if misfits.waits:
            return self._every
        if not misfits.types and not misfits.node_pools:
            return 0
        key = misfits.types, misfits.node_pools
        if key not in self._misfits:
            named, paused = (
                enumerate((one.pool.name, one.type_name) for one in self.candidates),
                dict(misfits.node_pools),
            )
            self._misfits[key] = of(index for index, one in named if one in misfits.types or one[0] in paused)
        return self._misfits[key]

    def opened(self, view: View) -> Mapping[int, Requirements]:
        """What pods require of labels that candidates leave open, by candidate; the others are left out.

        Of several alternatives the first one that a candidate satisfies counts.
        """
        if view.key not in self._open:
            found, left = dict[int, Requirements](), self._every
            for alternative in view.alternatives:
                allowed = self._labels.allowing(alternative) & left
                left &= ~allowed
                for alike, keys in self._unfixed(alternative, allowed):
                    opened = {key: alternative[key] for key in keys}
                    found |= dict.fromkeys(bits(alike), opened)
            self._open[view.key] = found
        return self._open[view.key]

    def _unfixed(self, wanted: Requirements, among: int) -> list[tuple[int, list[str]]]:
        """Candidates of a set with the labels that they leave open, those with the same ones together."""
        parts: list[tuple[int, list[str]]] = [(among, [])] if among else []
        for key, one in wanted.items():
            unfixed = self._labels.undecided(key, one)
            if not unfixed & among:
                continue
            divided = [(alike & ~unfixed, [*keys]) for alike, keys in parts if alike & ~unfixed]
            for alike, keys in parts:
                if inside := alike & unfixed:
                    keys.append(key)
                    divided.append((inside, keys))
            parts = divided
        return [part for part in parts if part[1]]

    def _tolerating(self, spec: PodSpec, view: View) -> int:
        """The candidates whose taints a pod tolerates. Specs are told apart by the identity of their tolerations."""
        key = id(spec.tolerations), view.ignore_preferred_taints
        if key not in self._tolerated:
            found = 0
            for taints, members in self._tainted.items():
                if untolerated(taints, spec.tolerations, ignore_preferred=view.ignore_preferred_taints) is None:
                    found |= members
            self._tolerated[key] = spec.tolerations, found
        return self._tolerated[key][1]

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
        found = self.roomy(requests)
        return found and found & self.compatible(spec, view)

    def taking(self, work: Work, view: View | None = None) -> int:
        """The candidates whose empty machine takes one unit of pods, and all that must share it."""
        found = self.fitting(work.spec, view or work.view, work.requests)
        for follower, _ in work.followers:
            found = found and found & self.compatible(follower.spec, follower.view)
        return found

    def kinds(self, found: int, keys: tuple[str, ...]) -> Sequence[Requirements]:
        """The requirements of a set of candidates on some labels, each combination once."""
        known = self._kinds.get((found, keys))
        if known is None:
            known = self._kinds[found, keys] = distinct((one.requirements for one in self.picked(found)), keys)
        return known

    def weight(self, found: int, below: int | None = None) -> int | None:
        """The largest weight of NodePools of a set of candidates; only weights below `below` count."""
        return next(
            (weight for weight, mask in self._weights if mask & found and (below is None or weight < below)), None
        )

    def picked(self, found: int) -> Iterator[Candidate]:
        """The candidates of a set, cheapest first."""
        return (self.candidates[index] for index in bits(found))
