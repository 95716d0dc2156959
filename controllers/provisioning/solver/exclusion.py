"""Required anti-affinity by hostname of pods on machines, as it keeps other pods off their machine.

Each kind of pod on a machine is compared with each kind of pod to be placed once for all attempts at a decision, and
only by terms that list a namespace and a label of the latter. The comparisons are counted for the pods that have the
terms, those of running pods within the budget of their namespace. A machine with terms beyond the budget takes none of
the pods that these might select: kube-scheduler honors them, so that at worst a machine is bought that is not needed.

Source: docs/references/kubernetes.md#topology-constraints.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .model import PodSpec, TopologyTerm
from .nodes import Host
from .selection import ANSWERS_MAX, Key, Pending, Selection, is_apart, keys_of
from .steps import TERMS_A_STEP, Steps
from .term_budget import TermBudget


@dataclass(slots=True)
class Apart:
    """Running pods of a namespace with the same terms.

    `spec`: of some of them. `machines`: the existing machines that they run on, as a set.
    """

    spec: PodSpec
    machines: int = 0


class Exclusion:
    """Which machines take no pods of a kind because of pods on them. One instance serves one decision.

    `running`: the running pods that may keep others off their machine, by the identity of their spec.
    """

    def __init__(
        self, selection: Selection, pending: Pending, running: Mapping[int, Apart], budget: TermBudget, steps: Steps
    ) -> None:
        self._selection = selection
        self._pending = pending
        self._running = running
        self._budget = budget
        self._steps = steps
        # By the class of the pods to be placed: their keys in order, and the machines that are known to take none.
        self._keys: dict[int, Mapping[Key, None]] = {}
        self._excluded: dict[int, int] = {}
        # By the identity of the spec with the terms, which is kept, so that no identity is used twice.
        self._terms: dict[int, tuple[PodSpec, Mapping[Key, Sequence[TopologyTerm]]]] = {}
        self._answers: dict[tuple[int, int], bool] = {}

    def known(self, spec: PodSpec) -> int:
        """The existing machines of which it is known that their running pods keep a pod out."""
        return self._excluded.get(self._selection.pod_class(spec), 0) if self._excluded else 0

    def by_running(self, host: Host, spec: PodSpec) -> bool:
        """Whether pods that ran on a machine before the decision keep a pod out; other machines with them are known."""
        for one in host.running_apart:
            apart = self._running[id(one)]
            if self._keeps_out(apart.spec, spec, running=True):
                kind = self._selection.pod_class(spec)
                self._excluded[kind] = self._excluded.get(kind, 0) | apart.machines
                return True
        return False

    def by_any(self, host: Host, spec: PodSpec) -> bool:
        """Whether running pods on a machine, or pods that were placed on it, keep a pod out."""
        return self.by_running(host, spec) or any(
            self._keeps_out(owner, spec, running=False) for owner in host.placed_apart
        )

    def _keeps_out(self, owner: PodSpec, spec: PodSpec, *, running: bool) -> bool:
        key = id(owner), self._selection.pod_class(spec)
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            found = self._answers[key] = self._compared(owner, spec, running=running)
        return found

    def _compared(self, owner: PodSpec, spec: PodSpec, *, running: bool) -> bool:
        for term in self._possible(owner, spec, running=running):
            if running and not self._budget.take(owner.namespace, 1):
                return True
            if not running:
                self._steps.compare(owner)
            if self._selection.compare(term, spec):
                return True
        return False

    def _possible(self, owner: PodSpec, spec: PodSpec, *, running: bool) -> Iterable[TopologyTerm]:
        """The terms of a pod that may select another one: by the keys of the terms or of the pod, which are fewer."""
        kind = self._selection.pod_class(spec)
        if kind not in self._keys:
            self._keys[kind] = dict.fromkeys(keys_of(spec))
        keys, terms = self._keys[kind], self._of(owner, running=running)
        fewer, others = (terms, keys) if len(terms) <= len(keys) else (keys, terms)
        self._count(owner, 1 + len(fewer) // TERMS_A_STEP, running=running)
        return (term for key in fewer if key in others for term in terms[key])

    def _of(self, owner: PodSpec, *, running: bool) -> Mapping[Key, Sequence[TopologyTerm]]:
        """The terms of a pod by the keys of the pods that they select."""
        if id(owner) not in self._terms:
            found = dict[Key, list[TopologyTerm]]()
            for term in owner.topology:
                if is_apart(term):
                    for key in self._pending.keys(term):
                        found.setdefault(key, []).append(term)
            self._count(owner, len(owner.topology), running=running)
            self._terms[id(owner)] = owner, found
        return self._terms[id(owner)][1]

    def _count(self, owner: PodSpec, comparisons: int, *, running: bool) -> None:
        if running:
            self._steps.compare_running(owner.namespace, comparisons)
        else:
            self._steps.compare(owner, comparisons)
