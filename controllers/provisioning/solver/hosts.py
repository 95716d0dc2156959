"""All machines with room during one decision: existing ones, and those that it has planned so far.

Existing machines that no pod was placed on are looked up as sets.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator
from heapq import merge
from operator import attrgetter

from provisioner.api.labels import HOSTNAME
from provisioner.api.requirements import Requirements, distinct

from . import bitsets
from .exclusion import Exclusion
from .host_index import HostIndex
from .model import PodSpec, Resources, TopologyTerm
from .nodes import Host
from .places import included
from .selection import Selection
from .steps import TERMS_A_STEP, Steps
from .views import View

_TIGHTNESS = attrgetter("tightness")


class Hosts:
    """`among`: the set of the existing machines that count, `takers`: those of them that take pods.

    `planned`: in the order of purchase.
    """

    def __init__(
        self, index: HostIndex, among: int, takers: int, *, exclusion: Exclusion, selection: Selection, steps: Steps
    ) -> None:
        self.planned: list[Host] = []
        self._index = index
        self._among = among
        self._untouched = takers
        self._exclusion = exclusion
        self._selection = selection
        self._steps = steps
        # Planned machines and existing ones that were given pods: those with equal labels and room together, each
        # list with the tightest first.
        self._touched: dict[tuple[Hashable, Hashable], list[Host]] = {}
        self._present: dict[int, PodSpec] | None = None

    @property
    def filled(self) -> list[Host]:
        """The existing machines that were given pods, by name."""
        touched = (host for hosts in self._touched.values() for host in hosts)
        return sorted((one for one in touched if one.candidate is None), key=attrgetter("name"))

    def with_room(self, spec: PodSpec, view: View, requests: Resources) -> Iterator[Host]:
        """Machines that a pod with these requests fits, and whose pods do not keep it out by hostname.

        Those with the least unused devices come first, so that whole machines stay free for large pods. Each is
        counted, with its kinds of pods.
        """
        untouched = self._letting_in(spec, self._index.fitting(spec, view, requests, self._untouched))
        each = 1 + len(view.topology)
        for host in merge(untouched, *self._touched_fitting(spec, view, requests), key=_TIGHTNESS):
            self._steps.count(spec, 1 + len(host.present) * each // TERMS_A_STEP)
            if not self.keep_out(host, spec):
                yield host

    def fitting(self, spec: PodSpec, view: View, requests: Resources) -> int:
        """How many machines a pod with these requests fits, other pods on them aside."""
        untouched = self._index.fitting(spec, view, requests, self._untouched).bit_count()
        touched = sum(map(len, self._touched_fitting(spec, view, requests)))
        self._steps.count(spec, 1 + touched // TERMS_A_STEP)
        return untouched + touched

    def _touched_fitting(self, spec: PodSpec, view: View, requests: Resources) -> Iterator[list[Host]]:
        """The machines with pods of this decision that a pod fits, other pods aside: those that are alike together."""
        self._steps.count(spec, 1 + len(self._touched) // TERMS_A_STEP)
        return (
            [host for host in hosts if host.takes(spec)]
            for hosts in self._touched.values()
            if all(amount <= hosts[0].free.get(name, 0) for name, amount in requests.items() if amount > 0)
            and hosts[0].alternative(spec, view) is not None
        )

    def _letting_in(self, spec: PodSpec, found: int) -> Iterator[Host]:
        """Those of a set of existing machines whose running pods do not keep a pod out."""
        found &= ~self._exclusion.known(spec)
        while found:
            for position in bitsets.bits(found):
                host = self._index.hosts[position]
                if self._exclusion.by_running(host, spec):
                    # The comparison is counted for the running pods, and concerns all machines with pods of their kind.
                    found &= ~self._exclusion.known(spec) & -1 << position
                    break
                yield host
            else:
                return

    def keep_out(self, host: Host, spec: PodSpec) -> bool:
        """Whether pods on a machine keep a pod out by hostname."""
        return self._exclusion.by_any(host, spec)

    def room(self, spec: PodSpec, view: View, requests: Resources, wanted: int) -> int:
        """How many pods, up to `wanted` on one machine, all machines together take."""
        return sum(
            host.room(spec, view, requests, wanted, self._selection) for host in self.with_room(spec, view, requests)
        )

    def has_room(self, spec: PodSpec, view: View, requests: Resources) -> bool:
        """Whether any machine takes one pod."""
        return any(host.room(spec, view, requests, 1, self._selection) for host in self.with_room(spec, view, requests))

    def kinds(self, view: View, keys: tuple[str, ...]) -> list[tuple[Requirements, Collection[str]]]:
        """What the machines that a view allows require of some labels, and the labels that they need not define yet.

        Taints do not count. Each combination comes once.
        """
        found = self._index.kinds(self._index.labelled(view) & self._among, keys)
        planned = (one for one in self._planned_kinds() if one.alternative_of(view.alternatives) is not None)
        by_open: dict[Collection[str], list[Requirements]] = {}
        for host in planned:
            by_open.setdefault(host.labelled.open_keys, []).append(host.requirements)
        return [*found, *((one, keys_) for keys_, all_ in by_open.items() for one in distinct(all_, keys))]

    def concerned(self, term: TopologyTerm, spec: PodSpec, keys: tuple[str, ...]) -> Iterator[Requirements]:
        """What the machines that a spread constraint of a pod concerns require of some labels, which all must have.

        The zone of a machine that is removed remains: kube-scheduler compares it as long as the Node exists, and a
        spread over zones is not given up to save a machine.
        """
        concerned = self._index.included(term, spec)
        among = concerned & self._among if term.key == HOSTNAME else concerned
        for one, _ in self._index.kinds(among, keys):
            if len(one) == len(keys):
                yield one
        for host in self._planned_kinds():
            if all(key in host.requirements for key in keys) and included(term, spec, host.place):
                yield host.requirements

    def _planned_kinds(self) -> Iterator[Host]:
        """One planned machine for each combination of requirements."""
        found: dict[Hashable, Host] = {}
        for (labelled, _), hosts in self._touched.items():
            if hosts[0].candidate is not None:
                found.setdefault(labelled, hosts[0])
        return iter(found.values())

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
            kind = _alike(host)
            alike = self._touched[kind]
            del alike[bisect_left(alike, host.tightness, key=_TIGHTNESS)]
            if not alike:
                del self._touched[kind]
        host.put(spec, view, requests, names)
        insort(self._touched.setdefault(_alike(host), []), host, key=_TIGHTNESS)
        if self._present is not None:
            self._present[id(spec)] = spec
        return host

    def plan(self, host: Host) -> None:
        """Add a new machine."""
        self.planned.append(host)
        insort(self._touched.setdefault(_alike(host), []), host, key=_TIGHTNESS)

    @property
    def _specs(self) -> dict[int, PodSpec]:
        """Those of all pods on the machines."""
        if self._present is None:
            hosts = [*(self._index.hosts[position] for position in bitsets.bits(self._among))]
            hosts += (host for alike in self._touched.values() for host in alike)
            self._present = {id(spec): spec for host in hosts for spec, _ in host.present}
        return self._present


def _alike(host: Host) -> tuple[Hashable, Hashable]:
    """Equal for machines with the same labels, taints and room."""
    return host.labelled.kind, frozenset(host.free.items())
