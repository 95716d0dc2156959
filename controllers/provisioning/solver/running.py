"""The constraints of running pods over labels other than the hostname, as they concern pending pods.

Each kind of pending pod is compared with them once for all attempts at a decision, within the budget of the namespace
of the running pods. Terms beyond it are left out: kube-scheduler honors them, so that at worst a machine is bought on
which it does not bind the pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .model import PodSpec, TopologyTerm
from .places import Placed
from .selection import Key, Pending, Selection, keeps_out, keys_of
from .term_budget import TermBudget


class Concern(NamedTuple):
    """`excluded`: the domains from which running pods keep a pod out, by key. `keys`: the labels over which they count
    it.
    """

    excluded: Mapping[str, frozenset[str]] = {}
    keys: frozenset[str] = frozenset()


NO_CONCERN = Concern()


class RunningPods:
    """The pods on the machines that stay, as they concern those of a decision: one instance serves all its attempts."""

    def __init__(self, selection: Selection, placed: Iterable[Placed], pending: Pending, budget: TermBudget) -> None:
        self.placed = [*placed]
        self.pending = pending
        self._selection = selection
        self._budget = budget
        self._found: dict[int, Concern] = {}
        # The terms by key and by the namespace of their pods, each with the domains that it keeps pods out of.
        self._terms: dict[Key, dict[str, list[tuple[TopologyTerm, set[str]]]]] = {}
        known: dict[tuple[str, int, str, str, bool], set[str]] = {}
        for one in self.placed:
            for term in one.terms:
                keys = pending.keys(term)
                if not keys:
                    continue
                number = selection.term_class(term)
                key = one.spec.namespace, number, term.kind, term.key, bool(term.weight)
                domains = known.get(key)
                if domains is None:
                    domains = known[key] = set()
                    for one_key in keys:
                        self._terms.setdefault(one_key, {}).setdefault(key[0], []).append((term, domains))
                if keeps_out(term) and term.key in one.domain:
                    domains.add(one.domain[term.key])

    def concern(self, spec: PodSpec) -> Concern:
        """What the terms of running pods mean for pods of this spec."""
        if not self._terms:
            return NO_CONCERN
        kind = self._selection.pod_class(spec)
        if kind not in self._found:
            self._found[kind] = self._concern(spec)
        return self._found[kind]

    def _concern(self, spec: PodSpec) -> Concern:
        excluded, keys = dict[str, set[str]](), set[str]()
        for term, domains in self._possible(spec):
            more = domains and not domains <= excluded.get(term.key, set())
            if (more or term.key not in keys) and self._selection.compare(term, spec):
                keys.add(term.key)
                if domains:
                    excluded.setdefault(term.key, set()).update(domains)
        return Concern({key: frozenset(found) for key, found in excluded.items()}, frozenset(keys))

    def _possible(self, spec: PodSpec) -> Iterator[tuple[TopologyTerm, set[str]]]:
        """The terms that may count pods of this spec, as far as the budgets of their namespaces suffice."""
        for key in keys_of(spec):
            for namespace, terms in self._terms.get(key, {}).items():
                yield from terms[: self._budget.take(namespace, len(terms))]
