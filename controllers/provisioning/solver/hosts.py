"""All machines with room during one decision: existing ones, and those that it has planned so far.

Existing machines that no pod was placed on are looked up as sets: there can be thousands of them, most without room.
What is known of them serves all decisions about one cluster.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter

from provisioner.api.labels import HOSTNAME

from . import bitsets
from .model import PodSpec, Resources, TopologyTerm
from .nodes import Host
from .topology import Selection
from .views import View

_TIGHTNESS = attrgetter("tightness")


class HostIndex:
    """The existing machines as sets, the one with the least room first; bit i stands for `hosts[i]`.

    Nothing is placed on these: a decision copies those that it places pods on.
    """

    def __init__(self, existing: Iterable[Host]) -> None:
        self.hosts: Sequence[Host] = sorted(existing, key=_TIGHTNESS)
        self.position = {id(host): position for position, host in enumerate(self.hosts)}
        self.kinds: dict[Hashable, tuple[Host, int]] = {}
        self._every = (1 << len(self.hosts)) - 1
        self._named = {host.name: position for position, host in enumerate(self.hosts)}
        self._compatible: dict[Hashable, int] = {}
        self._roomy: dict[str, bitsets.AtLeast] = {}
        for position, host in enumerate(self.hosts):
            labels = frozenset(one for one in host.requirements.items() if one[0] != HOSTNAME)
            key = labels, tuple(host.taints), host.open_keys
            kind, members = self.kinds.get(key) or (host, 0)
            self.kinds[key] = kind, members | 1 << position

    def without(self, names: Iterable[str]) -> int:
        """The set of the machines that do not have these names."""
        found = self._every
        for name in names:
            found &= ~(1 << self._named[name])
        return found

    def fitting(self, spec: PodSpec, view: View, requests: Resources, among: int) -> int:
        """Those of a set that a pod with these requests fits, other pods on them aside."""
        found = among
        for name, amount in requests.items():
            if found and amount > 0:
                found &= self._at_least(name, amount)
        return found and found & self._allowing(spec, view)

    def _allowing(self, spec: PodSpec, view: View) -> int:
        """The machines whose taints and labels allow a pod."""
        key = view.key, spec.tolerations
        if key not in self._compatible:
            if any(HOSTNAME in one for one in view.alternatives):
                hosts = enumerate(self.hosts)
                found = bitsets.of(position for position, host in hosts if host.alternative(spec, view) is not None)
            else:
                found = 0
                for kind, members in self.kinds.values():
                    if kind.alternative(spec, view) is not None:
                        found |= members
            self._compatible[key] = found
        return self._compatible[key]

    def _at_least(self, name: str, amount: int) -> int:
        if name not in self._roomy:
            self._roomy[name] = bitsets.AtLeast([host.free.get(name, 0) for host in self.hosts])
        return self._roomy[name].of(amount)


class Hosts:
    """`among`: the set of the existing machines that count, `takers`: those of them that take pods.

    `planned`: in the order of purchase.
    """

    def __init__(self, index: HostIndex, among: int, takers: int, selection: Selection) -> None:
        self.planned: list[Host] = []
        self._index = index
        self._among = among
        self._untouched = takers
        self._selection = selection
        # Planned machines and existing ones that were given pods, the tightest first.
        self._touched: list[Host] = []
        self._present: dict[int, PodSpec] | None = None

    @property
    def filled(self) -> list[Host]:
        """The existing machines that were given pods, by name."""
        return sorted((one for one in self._touched if one.candidate is None), key=attrgetter("name"))

    def with_room(self, spec: PodSpec, view: View, requests: Resources) -> Iterator[Host]:
        """Machines that a pod with these requests fits, other pods on them aside.

        Those with the least unused devices come first, so that whole machines stay free for large pods.
        """
        found = self._index.fitting(spec, view, requests, self._untouched)
        touched = [
            host
            for host in self._touched
            if all(amount <= host.free.get(name, 0) for name, amount in requests.items() if amount > 0)
            and host.alternative(spec, view) is not None
        ]
        untouched = (self._index.hosts[position] for position in bitsets.bits(found))
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
        yield from (kind for kind, members in self._index.kinds.values() if members & self._among)
        yield from self._touched

    def have(self, terms: Collection[TopologyTerm]) -> bool:
        """Whether any machine has pods that one of the terms selects."""
        return any(self._selection.selects(term, spec) for term in terms for spec in self._specs.values())

    def place(self, host: Host, spec: PodSpec, view: View, requests: Resources, names: Collection[str]) -> Host:
        """Put pods with these requests in all on a machine; returns the machine with them."""
        position = self._index.position.get(id(host))
        if position is not None:
            self._untouched &= ~(1 << position)
            host = host.copied()
        else:
            del self._touched[bisect_left(self._touched, host.tightness, key=_TIGHTNESS)]
        host.place(spec, view, requests, names)
        insort(self._touched, host, key=_TIGHTNESS)
        if self._present is not None:
            self._present[id(spec)] = spec
        return host

    def plan(self, host: Host) -> None:
        """Add a new machine."""
        self.planned.append(host)
        insort(self._touched, host, key=_TIGHTNESS)

    @property
    def _specs(self) -> dict[int, PodSpec]:
        """Those of all pods on the machines."""
        if self._present is None:
            hosts = [*(self._index.hosts[position] for position in bitsets.bits(self._among)), *self._touched]
            self._present = {id(spec): spec for host in hosts for spec, _, _ in host.present}
        return self._present
