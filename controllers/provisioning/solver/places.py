"""Where placed pods are, as constraints compare it: the labels and taints of their machine.

Source: docs/references/kubernetes.md#topology-constraints.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from provisioner.api.labels import HOSTNAME
from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements, conflict
from provisioner.api.taints import untolerated

from .model import PodSpec, TopologyTerm
from .selection import Selection

# A pod's labels by key, for the keys of constraints other than the hostname.
Domain = Mapping[str, str]


class Place(NamedTuple):
    """A machine, or one of several that are possible: any of `alternatives` describes its labels.

    `open_keys`: labels that it need not define yet, None for all of them.
    """

    alternatives: tuple[Requirements, ...]
    taints: Sequence[Taint] = ()
    open_keys: frozenset[str] | None = None


def included(term: TopologyTerm, spec: PodSpec, place: Place) -> bool:
    """Whether a spread constraint of a pod concerns a machine, according to its node inclusion policies."""
    if term.honor_affinity and not any(
        not conflict(labels, wanted, wanted if place.open_keys is None else place.open_keys)
        for labels in place.alternatives
        for wanted in spec.alternatives
    ):
        return False
    return not (term.honor_taints and untolerated(place.taints, spec.tolerations, ignore_preferred=True))


class Placed(NamedTuple):
    """Pods of a spec with their terms over labels other than the hostname, and the labels of their machine."""

    spec: PodSpec
    terms: tuple[TopologyTerm, ...]
    domain: Domain
    pods: int
    place: Place


def placed(spec: PodSpec, terms: Sequence[TopologyTerm], domain: Domain, pods: int, place: Place) -> Placed:
    """Pods of a spec on a machine; `domain` has the labels of their machine, as far as they are known."""
    return Placed(spec, tuple(t for t in terms if t.key != HOSTNAME), domain, pods, place)


class PlacedPods:
    """Pods on machines by the classes and labels that constraints tell apart: each counts those that it selects."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        # Those that are not classified yet: most decisions count few pods, or none.
        self._new: list[Placed] = []
        self._specs: dict[int, PodSpec] = {}
        self._of_class: dict[int, list[Placed]] = {}
        self._labelled: dict[tuple[str, str], list[int]] = {}

    def add(self, one: Placed) -> None:
        """Add pods of one machine."""
        self._new.append(one)

    def _classify(self, one: Placed) -> None:
        number = self._selection.pod_class(one.spec)
        if number not in self._specs:
            self._specs[number] = one.spec
            for label in one.spec.labels.items():
                self._labelled.setdefault(label, []).append(number)
        self._of_class.setdefault(number, []).append(one)

    def clear(self) -> None:
        """Drop all of them."""
        self._new.clear()
        self._specs.clear()
        self._of_class.clear()
        self._labelled.clear()

    def possible(self, term: TopologyTerm) -> Collection[int]:
        """The classes that are compared with a term."""
        for one in self._new:
            self._classify(one)
        self._new.clear()
        label = term.selector.single
        return self._specs if label is None else self._labelled.get(label, ())

    def selected(self, term: TopologyTerm) -> Iterator[Placed]:
        """Those that a term counts."""
        found = (number for number in self.possible(term) if self._selection.selects(term, self._specs[number]))
        return chain.from_iterable(self._of_class[number] for number in found)
