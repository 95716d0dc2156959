"""Which pods the constraints of others select, computed once for all pods and terms that cannot be told apart."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from types import MappingProxyType

from provisioner.api.labels import HOSTNAME
from provisioner.api.meta import EMPTY
from provisioner.api.value_sets import ValueSet

from .model import LabelSelector, PodSpec, TopologyTerm
from .steps import Steps

# Every Namespace has its name as this label
# (https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name).
NAMESPACE_NAME = "kubernetes.io/metadata.name"
NamespaceLabels = Mapping[str, Mapping[str, str] | None]
UNLABELLED: NamespaceLabels = MappingProxyType({})
# Answers beyond this number are dropped, so that hostile selectors do not fill the memory.
ANSWERS_MAX = 100_000
# A term that is found under more keys than these is compared with the pods of every label, or every namespace.
KEYS_MAX = 16
# A namespace and a label of a selected pod; None stands for every one.
Key = tuple[str | None, tuple[str, str] | None]


class Selection:
    """Which pods a term selects, computed once for all terms and pods that it cannot tell apart.

    One instance serves one decision. `namespaces`: the labels of Namespaces by name; None if they are not known, so
    that every selector of namespaces selects all. Where those of one Namespace are not known (None), a selector that
    compares them selects it for anti-affinity only: its pods are kept apart, and attract none.
    """

    def __init__(self, namespaces: NamespaceLabels | None = UNLABELLED) -> None:
        self._namespaces = namespaces
        self._partly_known = namespaces is not None and None in namespaces.values()
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
            key = term.kind if self._partly_known else term.kind == "spread", term.selector, term.namespaces
            known = term, self._term_classes.setdefault(key, len(self._term_classes))
            self._terms[id(term)] = known
        return known[1]

    def pod_class(self, spec: PodSpec) -> int:
        """A number that is equal for pods of one namespace with the same labels."""
        known = self._specs.get(id(spec))
        if known is None:
            key = spec.namespace, frozenset(spec.labels.items()), spec.terminating
            known = spec, self._pod_classes.setdefault(key, len(self._pod_classes))
            self._specs[id(spec)] = known
        return known[1]

    def selects(self, term: TopologyTerm, spec: PodSpec) -> bool:
        """Whether a term counts pods of this spec.

        A spread constraint counts neither terminating pods nor, with an empty selector, any pod.
        """
        key = self.term_class(term), self.pod_class(spec)
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            found = self._answers[key] = self.compare(term, spec)
        return found

    def compare(self, term: TopologyTerm, spec: PodSpec) -> bool:
        """As `selects`, for an answer that is not asked again."""
        if term.kind == "spread" and (spec.terminating or not term.selector.expressions):
            return False
        return term.selector.matches(spec.labels) and self._is_of(spec.namespace, term)

    def _is_of(self, namespace: str, term: TopologyTerm) -> bool:
        if self._namespaces is None:
            return all(namespace in one.names or one.selector.expressions is not None for one in term.namespaces)
        known = self._namespaces.get(namespace, EMPTY)
        if known is None:
            apart = term.kind == "anti-affinity"
            return all(namespace in one.names or _may_select(one.selector, namespace, apart) for one in term.namespaces)
        labels = {NAMESPACE_NAME: namespace, **known}
        return all(namespace in one.names or one.selector.matches(labels) for one in term.namespaces)


class Pending:
    """The namespaces and labels of the pods of a decision, so that terms are kept by those that they require.

    A term that requires what no pod of the decision has is kept nowhere, whatever it lists.
    """

    def __init__(self, specs: Iterable[PodSpec]) -> None:
        self._namespaces: set[str] = set()
        self._labels: set[tuple[str, str]] = set()
        for spec in specs:
            self._namespaces.add(spec.namespace)
            self._labels.update(spec.labels.items())

    def keys(self, term: TopologyTerm) -> Sequence[Key]:
        """Keys of which each pod that the term selects has one; as few as possible, none if there is no such pod."""
        labels: list[tuple[str, str] | None] = [None]
        # In the order of text: that of a set differs between processes, and with it the steps.
        for key, wanted in sorted(term.selector.expressions or (), key=_in_order):
            if not wanted.complement and wanted.values:
                found = [(key, value) for value in sorted(wanted.values) if (key, value) in self._labels]
                if len(found) <= KEYS_MAX and (labels[0] is None or len(found) < len(labels)):
                    labels = [*found]
                    if not labels:
                        return ()
        named = [one.names & self._namespaces for one in term.namespaces if one.selector.expressions is None]
        fewest = min((sorted(names) for names in named), key=lambda names: (len(names), names), default=None)
        namespaces: Iterable[str | None] = (None,) if fewest is None else fewest
        keys = [*product(namespaces, labels)]
        return keys if len(keys) <= KEYS_MAX else [(None, label) for label in labels]


def keys_of(spec: PodSpec) -> Iterator[Key]:
    """The keys of a pod."""
    return product((None, spec.namespace), (None, *spec.labels.items()))


def _in_order(expression: tuple[str, ValueSet]) -> tuple[str, bool, list[str]]:
    key, wanted = expression
    return key, wanted.complement, sorted(wanted.values)


def _may_select(selector: LabelSelector, namespace: str, unknown: bool) -> bool:
    """Whether it selects a Namespace of which the name is known only. `unknown`: the answer if others are compared."""
    expressions = selector.expressions
    if expressions is None:
        return False
    of_name = frozenset(one for one in expressions if one[0] == NAMESPACE_NAME)
    return LabelSelector(expressions=of_name).matches({NAMESPACE_NAME: namespace}) and (
        unknown or of_name == expressions
    )


class TermIndex:
    """The terms of pending pods by what they require of others, so that those which select a pod are found.

    The comparisons are steps of the pods that have the terms.
    """

    def __init__(self, selection: Selection, pending: Pending, steps: Steps) -> None:
        self._selection = selection
        self._pending = pending
        self._steps = steps
        self._known: set[tuple[int, str, str, bool]] = set()
        self._by_key: dict[Key, list[tuple[TopologyTerm, PodSpec]]] = {}

    def add(self, term: TopologyTerm, owner: PodSpec) -> None:
        """Add a term of a pod; one that selects the same pods for the same purpose as another is left out."""
        key = self._selection.term_class(term), term.kind, term.key, bool(term.weight)
        if key in self._known:
            return
        self._known.add(key)
        for one in self._pending.keys(term):
            self._by_key.setdefault(one, []).append((term, owner))

    def selecting(self, spec: PodSpec) -> Iterator[TopologyTerm]:
        """The terms that count pods of this spec."""
        if self._by_key:
            for term, owner in chain.from_iterable(self._by_key.get(one, ()) for one in keys_of(spec)):
                self._steps.compare(owner)
                if self._selection.selects(term, spec):
                    yield term


def keeps_out(term: TopologyTerm) -> bool:
    """Whether a term of a placed pod keeps other pods away: a preferred one concerns its own pod only."""
    return term.kind == "anti-affinity" and not term.weight


def is_apart(term: TopologyTerm) -> bool:
    """Whether a term of a placed pod keeps other pods off its machine."""
    return term.key == HOSTNAME and keeps_out(term)


def has_apart(spec: PodSpec) -> bool:
    """Whether a placed pod may keep other pods off its machine."""
    return any(is_apart(term) for term in spec.topology)
