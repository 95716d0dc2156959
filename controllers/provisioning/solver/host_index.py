"""The existing machines of a cluster as sets: there can be thousands of them, most without room.

What is known of them serves all decisions about the cluster.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from operator import attrgetter

from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements
from provisioner.api.taints import untolerated

from . import bitsets
from .exclusion import Apart
from .label_index import LabelIndex
from .model import PodSpec, Resources, TopologyTerm
from .nodes import Host
from .selection import is_apart
from .views import View


class HostIndex:
    """The existing machines as sets, the one with the least room first; bit i stands for `hosts[i]`.

    Nothing is placed on these: a decision copies those that it places pods on. `apart`: the running pods that may keep
    others off their machine, by the identity of their spec.
    """

    def __init__(self, existing: Iterable[Host], well_known: Collection[str]) -> None:
        self.hosts: Sequence[Host] = sorted(existing, key=attrgetter("tightness"))
        self.apart: dict[int, Apart] = {}
        self._alike: dict[Hashable, Apart] = {}
        self.position = {id(host): position for position, host in enumerate(self.hosts)}
        self._every = (1 << len(self.hosts)) - 1
        self._named = {host.name: position for position, host in enumerate(self.hosts)}
        planned = bitsets.of(position for position, host in enumerate(self.hosts) if host.labelled.open_keys)
        self._labels = LabelIndex([host.requirements for host in self.hosts], planned, well_known)
        self._allowed: dict[Hashable, int] = {}
        self._tainted: dict[tuple[Taint, ...], int] = {}
        self._tolerated: dict[tuple[int, bool], tuple[object, int]] = {}
        self._roomy: dict[str, bitsets.AtLeast] = {}
        self._projected: dict[tuple[str, ...], dict[Hashable, tuple[Requirements, Collection[str], int]]] = {}
        for position, host in enumerate(self.hosts):
            taints = host.labelled.taints
            self._tainted[taints] = self._tainted.get(taints, 0) | 1 << position
            for spec in host.running_apart:
                self._keeping_out(spec).machines |= 1 << position

    def _keeping_out(self, spec: PodSpec) -> Apart:
        """The running pods with the same required anti-affinity by hostname."""
        if id(spec) not in self.apart:
            key = spec.namespace, tuple(term for term in spec.topology if is_apart(term))
            self.apart[id(spec)] = self._alike.setdefault(key, Apart(spec))
        return self.apart[id(spec)]

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
        for name in spec.misfits.nodes & self._named.keys():
            found &= ~(1 << self._named[name])
        return found and found & self._allowing(spec, view)

    def labelled(self, view: View) -> int:
        """The machines whose labels allow a pod."""
        if view.key not in self._allowed:
            self._allowed[view.key] = self._labels.allowing_any(view.alternatives)
        return self._allowed[view.key]

    def included(self, term: TopologyTerm, spec: PodSpec) -> int:
        """The machines that a spread constraint of a pod concerns, according to its node inclusion policies."""
        found = self._labels.allowing_any(spec.alternatives) if term.honor_affinity else self._every
        return found & self._tolerating(spec, ignore_preferred=True) if term.honor_taints else found

    def kinds(self, found: int, keys: tuple[str, ...]) -> list[tuple[Requirements, Collection[str]]]:
        """What machines of a set require of some labels, and the labels that they need not define yet, once each."""
        if keys not in self._projected:
            groups: dict[Hashable, tuple[Requirements, Collection[str], int]] = {}
            for position, host in enumerate(self.hosts):
                own = {key: host.requirements[key] for key in keys if key in host.requirements}
                group = tuple(own.items()), bool(host.labelled.open_keys)
                first, open_keys, members = groups.get(group) or (own, host.labelled.open_keys, 0)
                groups[group] = first, open_keys, members | 1 << position
            self._projected[keys] = groups
        return [(own, open_keys) for own, open_keys, members in self._projected[keys].values() if members & found]

    def _allowing(self, spec: PodSpec, view: View) -> int:
        """The machines whose taints and labels allow a pod."""
        return self.labelled(view) & self._tolerating(spec, ignore_preferred=view.ignore_preferred_taints)

    def _tolerating(self, spec: PodSpec, *, ignore_preferred: bool) -> int:
        key = id(spec.tolerations), ignore_preferred
        if key not in self._tolerated:
            found = 0
            for taints, machines in self._tainted.items():
                if untolerated(taints, spec.tolerations, ignore_preferred=ignore_preferred) is None:
                    found |= machines
            self._tolerated[key] = spec.tolerations, found
        return self._tolerated[key][1]

    def _at_least(self, name: str, amount: int) -> int:
        if name not in self._roomy:
            self._roomy[name] = bitsets.AtLeast([host.free.get(name, 0) for host in self.hosts])
        return self._roomy[name].of(amount)
