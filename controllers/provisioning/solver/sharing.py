"""Which groups of pods may share one machine, and how many of them: constraints over the hostname, and host ports.

The constraints of all groups are converted to bit sets once, so that the search asks only for sums and intersections.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from provisioner.api.labels import HOSTNAME

from .bitsets import bits, of
from .host_room import PortUse
from .model import PodSpec, TopologyTerm
from .resources import UNLIMITED
from .selection import Selection


class Part(NamedTuple):
    """Pods of one kind in each unit of a group, with their active terms."""

    spec: PodSpec
    terms: Sequence[TopologyTerm]
    pods: int = 1


class _Cap(NamedTuple):
    """Beside a pod of `owners` at most `most` pods are on one machine that count. `owners`: groups as bits.

    `sizes`: how many pods count in one unit of each group.
    """

    owners: int
    sizes: Mapping[int, int]
    most: int


class _Parts:
    """The parts of all groups, by the labels of their pods."""

    def __init__(self, groups: Sequence[Sequence[Part]]) -> None:
        self._every = [(g, part) for g, parts in enumerate(groups) for part in parts]
        self._labelled: dict[tuple[str, str], list[tuple[int, Part]]] = {}
        for one in self._every:
            for label in one[1].spec.labels.items():
                self._labelled.setdefault(label, []).append(one)

    def possible(self, term: TopologyTerm) -> Sequence[tuple[int, Part]]:
        """Those that a term may select, each with its group."""
        label = term.selector.single
        return self._every if label is None else self._labelled.get(label, [])


def _sizes(possible: Iterable[tuple[int, Part]], term: TopologyTerm, selection: Selection) -> Counter[int]:
    """How many pods a term selects in one unit of each group."""
    found: Counter[int] = Counter()
    for g, part in possible:
        if selection.selects(term, part.spec):
            found[g] += part.pods
    return found


class Sharing:
    """The constraints of groups by their index. A group has one part, and more if other pods must be beside its own.

    `interacting`: the groups whose number on one machine depends on the other pods there; all others share freely.
    `compared`: how many parts were compared with the terms of each group.
    """

    def __init__(self, groups: Sequence[Sequence[Part]] = (), selection: Selection | None = None) -> None:
        known = selection or Selection()
        self._caps_of: dict[int, list[tuple[int, _Cap, int]]] = {}
        self._excluded: dict[int, int] = {}
        with_ports = [
            (g, part.spec.host_ports) for g, parts in enumerate(groups) for part in parts if part.spec.host_ports
        ]
        self._single: set[int] = {g for g, _ in with_ports}
        self._needs: dict[int, list[int]] = {}
        owners: dict[tuple[str, int, int], tuple[TopologyTerm, int]] = {}
        for g, parts in enumerate(groups):
            for term in (term for part in parts for term in part.terms):
                if term.key == HOSTNAME:
                    key = (term.kind, known.term_class(term), term.max_skew)
                    owners[key] = term, owners.get(key, (term, 0))[1] | 1 << g
        self._caps: list[_Cap] = []
        self.compared: Counter[int] = Counter()
        everyone = _Parts(groups if owners else ())
        for term, owned in owners.values():
            possible = everyone.possible(term)
            self.compared[next(bits(owned))] += len(possible)
            sizes = _sizes(possible, term, known)
            members = of(sizes)
            match term.kind:
                case "spread":
                    self._caps.append(_Cap(owned, sizes, term.max_skew))
                case "anti-affinity":
                    self._keep_apart(owned, members)
                case "affinity":
                    for g in bits(owned & ~members):
                        self._needs.setdefault(g, []).append(members)
        for number, cap in enumerate(self._caps):
            for g in bits(cap.owners | of(cap.sizes)):
                self._caps_of.setdefault(g, []).append((number, cap, cap.sizes.get(g, 0)))
        used = PortUse((1 << g, ports) for g, ports in with_ports)
        for g, ports in with_ports:
            if others := used.taken(ports) & ~(1 << g):
                self._excluded[g] = self._excluded.get(g, 0) | others
        self.interacting = frozenset({*self._caps_of, *self._excluded, *self._single, *self._needs})

    def _keep_apart(self, owners: int, members: int) -> None:
        for g in bits(owners):
            others = members & ~(1 << g)
            if others != members:
                self._single.add(g)
            self._excluded[g] = self._excluded.get(g, 0) | others
            for other in bits(others):
                self._excluded[other] = self._excluded.get(other, 0) | 1 << g

    def empty(self) -> list[int]:
        """The counted pods of an empty machine, for `room` and `add`."""
        return [0] * len(self._caps)

    def add(self, counted: list[int], group: int, units: int) -> None:
        """Count units of a group on a machine."""
        for number, _, size in self._caps_of.get(group, ()):
            counted[number] += units * size

    def room(self, counted: Sequence[int], present: int, group: int) -> int:
        """How many units of a group may join the units of other groups on one machine, resources aside.

        `present`: the groups on the machine as bits.
        """
        if self._excluded.get(group, 0) & present or (
            group in self._needs and not all(need & present for need in self._needs[group])
        ):
            return 0
        free = 1 if group in self._single else UNLIMITED
        for number, cap, size in self._caps_of.get(group, ()):
            if cap.owners & (present | 1 << group):
                left = cap.most - counted[number]
                if size:
                    free = min(free, left // size)
                elif left < 0:
                    return 0
        return max(0, free)

    def allows(self, pattern: Mapping[int, int]) -> bool:
        """Whether all units of a pattern may share one machine."""
        present = of(pattern)
        for group, units in pattern.items():
            if (
                self._excluded.get(group, 0) & present
                or (units > 1 and group in self._single)
                or not all(need & present for need in self._needs.get(group, ()))
            ):
                return False
        return all(
            sum(units * cap.sizes.get(group, 0) for group, units in pattern.items()) <= cap.most
            for cap in self._caps
            if cap.owners & present
        )
