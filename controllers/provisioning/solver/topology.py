"""Topology spread, pod affinity and pod anti-affinity over labels other than the hostname, such as zones.

They are decided before machines are chosen: `Domains.assign` gives each pod a domain, the least loaded one first.

Source: docs/references/kubernetes.md#topology-constraints, docs/references/karpenter.md#scheduling.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from provisioner.api.labels import HOSTNAME
from provisioner.api.requirements import combine, of_labels

from .model import PodSpec, TopologyTerm
from .places import Domain, Place, Placed, PlacedPods, included, placed
from .resources import UNLIMITED
from .running import RunningPods
from .selection import Selection, TermIndex, keeps_out
from .steps import DOMAINS_A_STEP, TERMS_A_STEP, Steps
from .ways import Way


class Spread(NamedTuple):
    """A required spread constraint of pods. `keys`: the labels of all such constraints of the pods.

    `compared`: the domains that have a machine or for which one may be bought. `present`: those that had one before.
    """

    spec: PodSpec
    term: TopologyTerm
    keys: frozenset[str]
    compared: frozenset[str]
    present: frozenset[str]


class Domains:
    """How many pods each constraint counts in each domain. One instance serves one attempt at a decision."""

    def __init__(self, selection: Selection, running: RunningPods, steps: Steps) -> None:
        self._selection = selection
        self._running = running
        self._steps = steps
        self._placed = PlacedPods(selection)
        # The constraints of pods that this attempt has placed, and the domains of those that keep others out.
        self._constraints = TermIndex(selection, running.pending, steps)
        self._occupied: dict[tuple[int, str], set[str]] = {}
        self.spreads: list[Spread] = []
        # Pods that have a domain, and no machine yet; and those of them that keep others out.
        self._assigned = PlacedPods(selection)
        self._keeping_out: list[Placed] = []
        for one in running.placed:
            self._placed.add(one)

    def add(self, one: Placed) -> None:
        """Record pods on a machine."""
        self._placed.add(one)
        for term in one.terms:
            self._constraints.add(term, one.spec)
            if keeps_out(term) and term.key in one.domain:
                occupied = self._occupied.setdefault((self._selection.term_class(term), term.key), set())
                occupied.add(one.domain[term.key])

    def settle(self) -> None:
        """Drop the pods that `assign` gave a domain: those that find a machine there are recorded with it."""
        self._assigned.clear()
        self._keeping_out.clear()

    def assign(
        self,
        spec: PodSpec,
        terms: Sequence[TopologyTerm],
        units: int,
        *,
        size: int,
        excluded: Mapping[str, Collection[str]],
        universe: Mapping[str, Sequence[str]],
        eligible: Callable[[TopologyTerm], Collection[str]],
        present: Callable[[TopologyTerm], Collection[str]],
        combinations: Callable[[Sequence[str]], Iterable[Sequence[str]]],
        paid: Callable[[Domain], int],
        cost: Callable[[Domain], float | None],
        supply: Callable[[Domain], int],
        way: Way,
        steps: Steps,
    ) -> list[tuple[dict[str, str], int, int]]:
        """Domains for units of `size` pods, as (domain, units, pods of each unit).

        The units are fewer than asked for if no domain takes the rest, and smaller if none takes a whole one.

        `excluded`: as the method has it. `universe`: the domains that the pod may use, by key. `eligible`: those that a
        spread constraint compares, in some of which the pod may have no place; `present`: those of them that have a
        machine. Pods that share one machine cannot use any other domain, so that only these count for them.
        `combinations(keys)`: the domains that a machine can have together.
        `paid`: how many units the existing machines of a domain take. `cost`: the price of the cheapest machine to buy
        there, None if there is none. `supply`: how many units new machines may take there at most. `way`: which of
        several possible domains is chosen. `steps`: once they are spent, no pod gets a domain. Pods that must be
        together go where most of them have a place.
        """
        own = [term for term in terms if term.key != HOSTNAME]
        keys = sorted({term.key for term in own} | {key for key in excluded if universe.get(key)})
        spread_keys = {term.key for term in own if term.kind == "spread"}
        counts = [self._count(term, spec, spread_keys, steps) for term in own]
        actual = [frozenset(present(term)) if term.kind == "spread" else frozenset[str]() for term in own]
        compared = [frozenset(eligible(term)) if term.kind == "spread" else frozenset[str]() for term in own]
        options = [dict(zip(keys, values, strict=True)) for values in combinations(keys)]
        options = [one for one in options if not any(one[key] in excluded.get(key, ()) for key in keys)]
        steps.count(spec, len(options) * (units + 1) * len(own or ".") // DOMAINS_A_STEP + 1)
        if steps.spent:
            return []
        room = [paid(option) for option in options]
        costs = [cost(option) for option in options]
        supplies = [0 if price is None else supply(option) for option, price in zip(options, costs, strict=True)]
        together = any(term.kind == "affinity" for term in own)
        lacking = [max(0, units - r - s) if together else 0 for r, s in zip(room, supplies, strict=True)]
        chosen: Counter[tuple[int, int]] = Counter()
        taken_of: Counter[int] = Counter()
        itself = [self._selection.selects(term, spec) for term in own]
        for _ in range(units):
            best: tuple[float, ...] | None = None
            least = [_least(t, counts[i], compared[i]) for i, t in enumerate(own)] if size == 1 else []
            for index, option in enumerate(options):
                if room[index] <= 0 and supplies[index] <= 0:
                    continue
                if size > 1:
                    least = [_least(t, counts[i], actual[i], beside=option[t.key]) for i, t in enumerate(own)]
                most = min(
                    (_most(t, counts[i][option[t.key]], least[i], itself[i]) for i, t in enumerate(own)), default=size
                )
                if most <= 0:
                    continue
                load = sum(counts[i][option[t.key]] for i, t in enumerate(own) if t.kind == "spread")
                price = 0.0 if room[index] > 0 else costs[index] or 0.0
                order = (price, load) if way.cheap_domains else (load, way.lean not in option.values(), price)
                filled = -taken_of[index] if way.few_domains else 0
                rank = (lacking[index], -min(most, size), filled, *order, index)
                best = rank if best is None or rank < best else best
            if best is None:
                break
            index, taken = int(best[-1]), int(-best[1])
            chosen[index, taken] += 1
            taken_of[index] += taken
            if room[index] > 0:
                room[index] -= 1
            else:
                supplies[index] -= 1
            for i, term in enumerate(own):
                if itself[i]:
                    counts[i][options[index][term.key]] += taken
        self.spreads += [
            Spread(spec, term, frozenset(spread_keys), compared[i], actual[i])
            for i, term in enumerate(own)
            if term.kind == "spread" and not term.weight
        ]
        for (index, taken), number in chosen.items():
            self._assign(spec, terms, options[index], number * taken)
        return [(options[index], number, taken) for (index, taken), number in sorted(chosen.items())]

    def _assign(self, spec: PodSpec, terms: Sequence[TopologyTerm], domain: Domain, pods: int) -> None:
        place = Place(tuple(combine(one, of_labels(domain)) for one in spec.alternatives))
        one = placed(spec, terms, domain, pods, place)
        self._assigned.add(one)
        if any(keeps_out(term) for term in one.terms):
            self._keeping_out.append(one)

    def excess(self, spread: Spread, compared: Collection[str]) -> dict[str, int]:
        """How many pods with the constraint each domain has beyond the skew, of these domains.

        All of them, if it does not count these pods themselves: fewer of them do not change the skew.
        """
        counts = self._count(spread.term, spread.spec, spread.keys)
        least = _least(spread.term, counts, compared)
        itself = self._selection.selects(spread.term, spread.spec)
        beyond = {d: over for d, n in sorted(counts.items()) if (over := n - least - spread.term.max_skew) > 0}
        return beyond if itself else dict.fromkeys(beyond, UNLIMITED)

    def concerns(self, spec: PodSpec, terms: Sequence[TopologyTerm]) -> bool:
        """Whether pods of this spec need a domain: by their own terms, or by anti-affinity of pods already placed."""
        return any(term.key != HOSTNAME for term in terms) or bool(self.excluded(spec))

    def counted_keys(self, spec: PodSpec) -> set[str]:
        """The labels over which placed pods have constraints that count pods of this spec."""
        return {*self._running.concern(spec).keys, *(term.key for term in self._constraints.selecting(spec))}

    def excluded(self, spec: PodSpec) -> dict[str, set[str]]:
        """The domains from which anti-affinity of other pods excludes this spec, by key."""
        excluded = {key: {*domains} for key, domains in self._running.concern(spec).excluded.items()}
        if self._occupied:
            for term in self._constraints.selecting(spec):
                if keeps_out(term):
                    occupied = self._occupied.get((self._selection.term_class(term), term.key), ())
                    excluded.setdefault(term.key, set()).update(occupied)
        for one in self._keeping_out:
            for term in one.terms:
                self._steps.compare(one.spec)
                if keeps_out(term) and self._selection.selects(term, spec) and term.key in one.domain:
                    excluded.setdefault(term.key, set()).add(one.domain[term.key])
        return {key: domains for key, domains in excluded.items() if domains}

    def _count(
        self, term: TopologyTerm, spec: PodSpec, spread_keys: Collection[str], steps: Steps | None = None
    ) -> Counter[str]:
        """The pods that a term of a pod counts; a spread constraint counts those on machines that it concerns.

        kube-scheduler leaves out Nodes that lack the label of another spread constraint of the pod.
        """
        concerned: dict[int, bool] = {}
        counted: Counter[str] = Counter()
        possible = [*self._placed.selected(term), *self._assigned.selected(term)]
        if steps is not None:
            compared = len(self._placed.possible(term)) + len(self._assigned.possible(term))
            steps.count(spec, len(possible) // DOMAINS_A_STEP + compared // TERMS_A_STEP)
        for one in possible:
            if term.key not in one.domain:
                continue
            if term.kind == "spread":
                # The pods of one machine, and equal machines, share a place.
                if id(one.place) not in concerned:
                    concerned[id(one.place)] = all(key in one.domain for key in spread_keys) and included(
                        term, spec, one.place
                    )
                if not concerned[id(one.place)]:
                    continue
            counted[one.domain[term.key]] += one.pods
        return counted


def _least(term: TopologyTerm, counts: Counter[str], compared: Collection[str], beside: str | None = None) -> int:
    """What the number of pods in a domain is compared with: the least of all, or for affinity the total.

    `beside`: this domain does not count, because all pods are put there.
    """
    if term.kind != "spread":
        return counts.total() if term.kind == "affinity" else 0
    if beside is not None:
        if len({*compared, beside}) < term.min_domains:
            return 0
        return min((counts[domain] for domain in compared if domain != beside), default=UNLIMITED)
    return 0 if len(compared) < term.min_domains else min((counts[domain] for domain in compared), default=0)


def _most(term: TopologyTerm, count: int, least: int, itself: bool) -> int:
    """How many more pods a term lets into a domain that has `count` of those that it selects."""
    match term.kind:
        case "spread" if itself:
            return term.max_skew + least - count
        case "spread":
            return UNLIMITED if count - least <= term.max_skew else 0
        case "affinity":
            return UNLIMITED if count > 0 or (itself and not least) else 0
    return 0 if count else 1 if itself else UNLIMITED
