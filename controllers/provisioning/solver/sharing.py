"""Which groups of pods may share one machine, and how many of them: constraints over the hostname, and host ports.

The constraints of all groups are converted to bit sets once, so that the search asks only for sums and intersections.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from provisioner.api.labels import HOSTNAME

from .bitsets import bits, of
from .candidates import ports_conflict
from .model import PodSpec, TopologyTerm
from .topology import UNLIMITED, Selection


class _Cap(NamedTuple):
    """Beside a pod of `owners` at most `most` pods of `members` are on one machine. Both are sets of groups as bits."""

    owners: int
    members: int
    most: int


class Sharing:
    """The constraints of groups by their index. `sizes`: pods in one unit of each group; 1 without sizes.

    `interacting`: the groups whose number on one machine depends on the other pods there; all others share freely.
    """

    def __init__(
        self,
        groups: Sequence[tuple[PodSpec, Sequence[TopologyTerm]]] = (),
        sizes: Sequence[int] = (),
        selection: Selection | None = None,
    ) -> None:
        known = selection or Selection()
        self._sizes = sizes
        self._caps_of: dict[int, list[tuple[int, _Cap, bool]]] = {}
        self._excluded: dict[int, int] = {}
        self._single: set[int] = {g for g, (spec, _) in enumerate(groups) if spec.host_ports}
        self._needs: dict[int, list[int]] = {}
        owners: dict[tuple[str, int, int], tuple[TopologyTerm, int]] = {}
        for g, (_, terms) in enumerate(groups):
            for term in terms:
                if term.key == HOSTNAME:
                    key = (term.kind, known.term_class(term), term.max_skew)
                    owners[key] = term, owners.get(key, (term, 0))[1] | 1 << g
        self._caps: list[_Cap] = []
        for term, owned in owners.values():
            members = of(g for g, (spec, _) in enumerate(groups) if known.selects(term, spec))
            match term.kind:
                case "spread":
                    self._caps.append(_Cap(owned, members, term.max_skew))
                case "anti-affinity":
                    self._keep_apart(owned, members)
                case "affinity":
                    for g in bits(owned & ~members):
                        self._needs.setdefault(g, []).append(members)
        for number, cap in enumerate(self._caps):
            for g in bits(cap.owners | cap.members):
                self._caps_of.setdefault(g, []).append((number, cap, bool(cap.members >> g & 1)))
        with_ports = [(g, spec.host_ports) for g, (spec, _) in enumerate(groups) if spec.host_ports]
        for g, ports in with_ports:
            for other, theirs in with_ports:
                if g != other and ports_conflict(ports, theirs):
                    self._excluded[g] = self._excluded.get(g, 0) | 1 << other
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
        for number, _, is_member in self._caps_of.get(group, ()):
            if is_member:
                counted[number] += units * self._size(group)

    def room(self, counted: Sequence[int], present: int, group: int) -> int:
        """How many units of a group may join the units of other groups on one machine, resources aside.

        `present`: the groups on the machine as bits.
        """
        if self._excluded.get(group, 0) & present or (
            group in self._needs and not all(need & present for need in self._needs[group])
        ):
            return 0
        free = 1 if group in self._single else UNLIMITED
        for number, cap, is_member in self._caps_of.get(group, ()):
            if cap.owners & (present | 1 << group):
                left = cap.most - counted[number]
                if is_member:
                    free = min(free, left // self._size(group))
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
        return all(self._pods(c.members, pattern) <= c.most for c in self._caps if c.owners & present)

    def _pods(self, members: int, pattern: Mapping[int, int]) -> int:
        return sum(units * self._size(g) for g, units in pattern.items() if members >> g & 1)

    def _size(self, group: int) -> int:
        return self._sizes[group] if self._sizes else 1
