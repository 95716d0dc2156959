"""Topology spread, pod affinity and pod anti-affinity.

Constraints over hostnames limit how many pods share one machine (`host_room`). Constraints over other labels, such as
zones, are decided before machines are chosen: `Domains.assign` gives each pod a domain, the least loaded one first.

Source: docs/references/karpenter.md#scheduling,
https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from provisioner.api.labels import HOSTNAME

from .candidates import ports_conflict
from .model import PodSpec, TopologyTerm

EVERY_NAMESPACE = "*"
UNLIMITED = 1_000_000
# A pod's labels by key, for the keys of constraints other than the hostname.
Domain = Mapping[str, str]


def selects(term: TopologyTerm, spec: PodSpec) -> bool:
    """Whether a term counts pods of this spec."""
    return (spec.namespace in term.namespaces or EVERY_NAMESPACE in term.namespaces) and term.selector.matches(
        spec.labels
    )


class Selection:
    """Answers `selects` once for all terms and pods that it cannot tell apart. One instance serves one decision."""

    def __init__(self) -> None:
        # Terms and specs by identity; they are kept, so that no identity is used twice.
        self._terms: dict[int, tuple[TopologyTerm, int]] = {}
        self._specs: dict[int, tuple[PodSpec, int]] = {}
        self._term_classes: dict[Hashable, int] = {}
        self._pod_classes: dict[Hashable, int] = {}
        self._answers: dict[tuple[int, int], bool] = {}

    def term_class(self, term: TopologyTerm) -> int:
        """A number that is equal for terms that select the same pods."""
        known = self._terms.get(id(term))
        if known is None:
            selector = term.selector
            key = frozenset(selector.requirements.items()), selector.everything, term.namespaces
            known = term, self._term_classes.setdefault(key, len(self._term_classes))
            self._terms[id(term)] = known
        return known[1]

    def pod_class(self, spec: PodSpec) -> int:
        """A number that is equal for pods of one namespace with the same labels."""
        known = self._specs.get(id(spec))
        if known is None:
            key = spec.namespace, frozenset(spec.labels.items())
            known = spec, self._pod_classes.setdefault(key, len(self._pod_classes))
            self._specs[id(spec)] = known
        return known[1]

    def selects(self, term: TopologyTerm, spec: PodSpec) -> bool:
        """Whether a term counts pods of this spec."""
        key = self.term_class(term), self.pod_class(spec)
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = selects(term, spec)
        return found


def host_room(
    present: Sequence[tuple[PodSpec, Sequence[TopologyTerm], int]],
    spec: PodSpec,
    terms: Sequence[TopologyTerm],
    selection: Selection,
) -> int:
    """How many pods of a spec may join the pods that are present on one machine.

    `present` has a spec, its active terms and a number of pods for each kind of pod on the machine.
    """
    on_machine = [(other, n) for other, _, n in present if n]
    for _, others, n in present:
        if n and any(t.key == HOSTNAME and t.kind == "anti-affinity" and selection.selects(t, spec) for t in others):
            return 0
    room = UNLIMITED
    if spec.host_ports:
        room = 1
        if any(ports_conflict(spec.host_ports, other.host_ports) for other, _ in on_machine):
            return 0
    for term in terms:
        if term.key != HOSTNAME:
            continue
        matched = sum(n for other, n in on_machine if selection.selects(term, other))
        counts_itself = selection.selects(term, spec)
        match term.kind:
            case "spread" if counts_itself:
                room = min(room, term.max_skew - matched)
            case "spread":
                room = room if matched <= term.max_skew else 0
            case "anti-affinity":
                room = 0 if matched else min(room, 1 if counts_itself else room)
            case "affinity" if not matched and not counts_itself:
                room = 0
    return max(0, room)


class Placed(NamedTuple):
    """Pods of a spec with their terms over labels other than the hostname, and the labels of their machine."""

    spec: PodSpec
    terms: tuple[TopologyTerm, ...]
    domain: Domain
    pods: int


def placed(spec: PodSpec, terms: Sequence[TopologyTerm], domain: Domain, pods: int) -> Placed:
    """Pods of a spec in a domain; `domain` has the labels of their machine, as far as they are known."""
    return Placed(spec, tuple(t for t in terms if t.key != HOSTNAME), domain, pods)


class Domains:
    """How many pods each constraint counts in each domain. One instance serves one decision."""

    def __init__(self, selection: Selection, present: Iterable[Placed] = ()) -> None:
        self._selection = selection
        self._placed = [*present]
        # Those whose own constraints concern other pods; most pods have none.
        self._constrained = [one for one in self._placed if one.terms]

    @property
    def keys(self) -> set[str]:
        """The labels over which pods that are already placed have constraints."""
        return {term.key for one in self._constrained for term in one.terms}

    def add(self, one: Placed) -> None:
        """Record pods in a domain."""
        self._placed.append(one)
        if one.terms:
            self._constrained.append(one)

    def assign(
        self,
        spec: PodSpec,
        terms: Sequence[TopologyTerm],
        pods: int,
        *,
        universe: Mapping[str, Sequence[str]],
        paid: Callable[[Domain], int],
        cost: Callable[[Domain], float | None],
        supply: Callable[[Domain], int],
    ) -> list[tuple[dict[str, str], int]]:
        """Domains for pods, as (domain, pods) pairs; fewer pods than asked for if no domain takes the rest.

        `universe`: the domains that the pod may use, by key. `paid`: how many pods the existing machines of a domain
        take. `cost`: the price of the cheapest machine to buy there, None if there is none. `supply`: how many pods new
        machines may take there at most. Pods that must be together go where most of them have a place.
        """
        own = [term for term in terms if term.key != HOSTNAME]
        excluded = self._excluded(spec)
        keys = sorted({term.key for term in own} | {key for key in excluded if universe.get(key)})
        counts = [self._count(term) for term in own]
        options = [dict(zip(keys, values, strict=True)) for values in product(*(universe.get(k, ()) for k in keys))]
        options = [one for one in options if not any(one[key] in excluded.get(key, ()) for key in keys)]
        room = [paid(option) for option in options]
        costs = [cost(option) for option in options]
        supplies = [0 if price is None else supply(option) for option, price in zip(options, costs, strict=True)]
        together = any(term.kind == "affinity" for term in own)
        lacking = [max(0, pods - r - s) if together else 0 for r, s in zip(room, supplies, strict=True)]
        chosen: Counter[int] = Counter()
        itself = [self._selection.selects(term, spec) for term in own]
        for _ in range(pods):
            best: tuple[int, int, float, int] | None = None
            for index, option in enumerate(options):
                if (room[index] <= 0 and supplies[index] <= 0) or not all(
                    self._satisfied(t, counts[i], option[t.key], itself[i], universe[t.key]) for i, t in enumerate(own)
                ):
                    continue
                load = sum(counts[i][option[t.key]] for i, t in enumerate(own) if t.kind == "spread")
                price = costs[index]
                rank = (lacking[index], load, 0.0 if room[index] > 0 or price is None else price, index)
                best = rank if best is None or rank < best else best
            if best is None:
                break
            index = best[-1]
            chosen[index] += 1
            if room[index] > 0:
                room[index] -= 1
            else:
                supplies[index] -= 1
            for i, term in enumerate(own):
                if itself[i]:
                    counts[i][options[index][term.key]] += 1
        for index, number in chosen.items():
            self.add(placed(spec, terms, options[index], number))
        return [(options[index], number) for index, number in sorted(chosen.items())]

    def concerns(self, spec: PodSpec, terms: Sequence[TopologyTerm]) -> bool:
        """Whether pods of this spec need a domain: by their own terms, or by anti-affinity of pods already placed."""
        return any(term.key != HOSTNAME for term in terms) or bool(self._excluded(spec))

    def _excluded(self, spec: PodSpec) -> dict[str, set[str]]:
        """The domains from which anti-affinity of other pods excludes this spec, by key."""
        excluded: dict[str, set[str]] = {}
        for one in self._constrained:
            for term in one.terms:
                if term.kind == "anti-affinity" and self._selection.selects(term, spec) and term.key in one.domain:
                    excluded.setdefault(term.key, set()).add(one.domain[term.key])
        return excluded

    def _count(self, term: TopologyTerm) -> Counter[str]:
        counted: Counter[str] = Counter()
        for spec, _, domain, pods in self._placed:
            if term.key in domain and self._selection.selects(term, spec):
                counted[domain[term.key]] += pods
        return counted

    @staticmethod
    def _satisfied(
        term: TopologyTerm, counts: Counter[str], domain: str, itself: bool, universe: Sequence[str]
    ) -> bool:
        match term.kind:
            case "spread":
                least = 0 if len(universe) < term.min_domains else min((counts[d] for d in universe), default=0)
                return counts[domain] + itself - least <= term.max_skew
            case "affinity":
                return counts[domain] > 0 or (itself and not counts.total())
        return counts[domain] == 0
