"""All machines with room during one decision: existing ones, and those that it has planned so far.

Existing machines that no pod was placed on are looked up as sets: there can be thousands of them, most without room.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Iterator
from copy import copy
from heapq import merge
from operator import attrgetter

from provisioner.api.labels import HOSTNAME

from . import bitsets
from .model import PodSpec, Resources, TopologyTerm
from .nodes import Host
from .topology import Selection
from .views import View

_TIGHTNESS = attrgetter("tightness")


class Hosts:
    """`existing`: in the order of their names. `planned`: in the order of purchase."""

    def __init__(self, existing: Iterable[Host], selection: Selection) -> None:
        self.existing = sorted(existing, key=attrgetter("name"))
        self.planned: list[Host] = []
        self._selection = selection
        self._ranked = sorted(self.existing, key=_TIGHTNESS)
        self._position = {id(host): position for position, host in enumerate(self._ranked)}
        self._untouched = (1 << len(self._ranked)) - 1
        # Planned machines and existing ones that were given pods, the tightest first.
        self._touched: list[Host] = []
        self._kinds: dict[Hashable, tuple[Host, int]] = {}
        self._compatible: dict[Hashable, int] = {}
        self._roomy: dict[str, bitsets.AtLeast] = {}
        self._specs = {id(spec): spec for host in self.existing for spec, _, _ in host.present}
        for position, host in enumerate(self._ranked):
            labels = frozenset(one for one in host.requirements.items() if one[0] != HOSTNAME)
            key = labels, tuple(host.taints), host.open_keys
            # A kind is asked what an untouched machine allows, so that it is a copy.
            kind, members = self._kinds.get(key) or (copy(host), 0)
            self._kinds[key] = kind, members | 1 << position

    def with_room(self, spec: PodSpec, view: View, requests: Resources) -> Iterator[Host]:
        """Machines that a pod with these requests fits, other pods on them aside.

        Those with the least unused devices come first, so that whole machines stay free for large pods.
        """
        found = self._untouched & self._allowing(spec, view)
        for name, amount in requests.items():
            if found and amount > 0:
                found &= self._at_least(name, amount)
        touched = [
            host
            for host in self._touched
            if all(amount <= host.free.get(name, 0) for name, amount in requests.items() if amount > 0)
            and host.alternative(spec, view) is not None
        ]
        untouched = (self._ranked[position] for position in bitsets.bits(found))
        return merge(untouched, touched, key=_TIGHTNESS)

    def room(self, spec: PodSpec, view: View, requests: Resources, wanted: int) -> int:
        """How many pods, up to `wanted` on one machine, all machines together take."""
        return sum(
            host.room(spec, view, requests, wanted, self._selection) for host in self.with_room(spec, view, requests)
        )

    def has_room(self, spec: PodSpec, view: View, requests: Resources) -> bool:
        """Whether any machine takes one pod."""
        return any(host.room(spec, view, requests, 1, self._selection) for host in self.with_room(spec, view, requests))

    def kinds(self) -> Iterator[Host]:
        """One machine for each combination of labels, the hostname aside."""
        yield from (kind for kind, _ in self._kinds.values())
        yield from self._touched

    def have(self, terms: Collection[TopologyTerm]) -> bool:
        """Whether any machine has pods that one of the terms selects."""
        return any(self._selection.selects(term, spec) for term in terms for spec in self._specs.values())

    def place(self, host: Host, spec: PodSpec, view: View, requests: Resources, names: Collection[str]) -> None:
        """Put pods with these requests in all on a machine."""
        position = self._position.get(id(host))
        if position is not None and self._untouched >> position & 1:
            self._untouched ^= 1 << position
        else:
            del self._touched[bisect_left(self._touched, host.tightness, key=_TIGHTNESS)]
        host.place(spec, view, requests, names)
        insort(self._touched, host, key=_TIGHTNESS)
        self._specs[id(spec)] = spec

    def plan(self, host: Host) -> None:
        """Add a new machine."""
        self.planned.append(host)
        insort(self._touched, host, key=_TIGHTNESS)

    def _allowing(self, spec: PodSpec, view: View) -> int:
        """The existing machines whose taints and labels allow a pod."""
        key = view.key, spec.tolerations
        if key not in self._compatible:
            if any(HOSTNAME in one for one in view.alternatives):
                hosts = enumerate(self._ranked)
                found = bitsets.of(position for position, host in hosts if host.alternative(spec, view) is not None)
            else:
                found = 0
                for kind, members in self._kinds.values():
                    if kind.alternative(spec, view) is not None:
                        found |= members
            self._compatible[key] = found
        return self._compatible[key]

    def _at_least(self, name: str, amount: int) -> int:
        """The existing machines that had so much of a resource before pods were placed."""
        if name not in self._roomy:
            taken = [host.free.get(name, 0) + host.requested.get(name, 0) for host in self._ranked]
            self._roomy[name] = bitsets.AtLeast(taken)
        return self._roomy[name].of(amount)
