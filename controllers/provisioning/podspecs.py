"""What scheduling compares of a Pod, from the Pod as the API server returns it.

Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/,
https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/apis/core/v1/defaults.go (defaultPodRequests),
https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/scheduler/util/utils.go (GetHostPorts).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from provisioner.api.affinity import Affinity, LabelSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm
from provisioner.api.meta import EMPTY
from provisioner.api.pod import Container, Pod, PodSpec
from provisioner.api.requirements import (
    Requirement,
    Requirements,
    combine,
    excludes,
    normalise_key,
    of_entries,
    of_labels,
)
from provisioner.api.value_sets import ValueSet, value_set

from .solver import model
from .solver.comparisons import check
from .solver.resources import largest, parse, total

# A set of so many values costs as much as an expression without values.
VALUES_A_COMPARISON = 100
HUGE_PAGES = "hugepages-"


def interchangeable(
    pending: Iterable[tuple[str, model.PodSpec]], bound: Iterable[model.PodSpec]
) -> tuple[model.Pod, ...]:
    """Pending pods by name, with equal keys for those that scheduling cannot tell apart.

    Labels that no constraint of any pod selects do not count: the pods of a StatefulSet or of an indexed Job have
    labels of their own.
    """
    found = [*pending]
    known: dict[int, bytes] = {}
    selectors = {term.selector for spec in (*(one for _, one in found), *bound) for term in spec.topology}
    selected = {key for selector in selectors for key, _ in selector.expressions or ()}
    for _, spec in found:
        if id(spec) not in known:
            # A term concerns pods of some namespaces, whichever labels it selects.
            known[id(spec)] = _key(spec, spec.namespace if selectors else "", selected)
    return tuple(model.Pod(name=name, spec=spec, key=known[id(spec)]) for name, spec in found)


def podspec(found: Pod) -> model.PodSpec:
    """The constraints and requests of a pod.

    Raises ValueError that names the field, TooLargeError for too many terms.
    """
    spec, labels = found.spec, found.metadata.labels
    _check_size(spec)
    namespace = found.metadata.namespace or "default"
    affinity = spec.affinity
    selector = of_labels(spec.node_selector)
    alternatives: tuple[Requirements, ...] = (selector,)
    preferences: tuple[model.Preference, ...] = ()
    if affinity is not None:
        required = affinity.node_affinity.required
        if required is not None:
            terms = _required_terms(required.node_selector_terms)
            alternatives = tuple(combine(selector, term) for term in terms if not excludes(selector, term))
            if not alternatives:
                raise ValueError("nodeSelector and required node affinity exclude each other, so that no Node fits")
        preferences = tuple(
            model.Preference(weight=one.weight, requirements=term)
            for one in affinity.node_affinity.preferred
            if (term := _node_term(one.preference)) is not None
        )
    return model.PodSpec(
        namespace=namespace,
        labels=labels,
        requests=requests(spec),
        alternatives=alternatives,
        preferences=preferences,
        tolerations=spec.tolerations,
        topology=tuple(_topology(spec, namespace, labels)),
        host_ports=frozenset(_host_ports(spec)),
    )


def unconstrained(found: Pod) -> model.PodSpec:
    """What others observe of a pod whose constraints are too large to be evaluated: its requests, labels and ports."""
    spec = msgspec.structs.replace(
        found.spec, affinity=None, node_selector={}, tolerations=(), topology_spread_constraints=()
    )
    return podspec(msgspec.structs.replace(found, spec=spec))


def _check_size(spec: PodSpec) -> None:
    """Raises TooLargeError, before anything is made of the terms."""
    spreads, affinity = spec.topology_spread_constraints, spec.affinity or Affinity()
    pods = (affinity.pod_affinity, affinity.pod_anti_affinity)
    required, preferred = affinity.node_affinity.required, affinity.node_affinity.preferred
    alternatives = required.node_selector_terms if required is not None else ()
    each_preferred = sum(_size(one.preference.match_expressions) for one in preferred)
    levels = 2 + len(preferred) + sum(len(one.preferred) for one in pods)
    levels += sum(one.when_unsatisfiable != "DoNotSchedule" for one in spreads)
    expressions = sum(len(spec.node_selector) + _size(term.match_expressions) for term in alternatives)
    check(
        levels=levels,
        expressions=max(len(spec.node_selector), expressions)
        + len(spec.tolerations)
        + max(1, len(alternatives)) * each_preferred // levels,
        terms=len(spreads) + sum(len(one.required) + len(one.preferred) for one in pods),
    )


def _size(expressions: Sequence[Requirement]) -> int:
    return sum(1 + len(one.values) // VALUES_A_COMPARISON for one in expressions)


def requests(spec: PodSpec) -> dict[str, int]:
    """The effective requests of a pod, itself counted as 1 of resource `pods`.

    A limit of the pod is its request as well, as the API server completes pods, unless its containers request the
    resource; of huge pages it is in any case.
    """
    running, peak, sidecars = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in spec.init_containers:
        own = _container(container)
        if _is_sidecar(container):
            sidecars = total((sidecars, own))
            peak = largest((peak, sidecars))
        else:
            peak = largest((peak, total((sidecars, own))))
    running = total((sidecars, *(_container(one) for one in spec.containers)))
    effective = largest((running, peak))
    if spec.resources is not None:
        for name, limit in parse(spec.resources.limits).items():
            if name not in effective or name.startswith(HUGE_PAGES):
                effective[name] = limit
        effective |= parse(spec.resources.requests)
    return {"pods": 1000, **{name: n for name, n in total((effective, parse(spec.overhead))).items() if n > 0}}


def _host_ports(spec: PodSpec) -> Iterator[tuple[str, int, str]]:
    """The ports of the Node that a pod uses as long as it runs: those of init containers that end do not count.

    In the network of its Node these are all its ports; the API server states that in pods, but not in templates.
    """
    for container in (*spec.containers, *filter(_is_sidecar, spec.init_containers)):
        for port in container.ports:
            if number := port.host_port or (port.container_port if spec.host_network else 0):
                yield port.host_ip or "0.0.0.0", number, port.protocol or "TCP"  # noqa: S104


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def label_selector(selector: LabelSelector | None) -> model.LabelSelector:
    """A selector of pods; None selects none. Raises ValueError for an invalid one."""
    return _selector(selector, {})


def _container(container: Container) -> dict[str, int]:
    return parse(container.resources.limits) | parse(container.resources.requests)


def _required_terms(terms: Sequence[NodeSelectorTerm]) -> list[dict[str, ValueSet]]:
    """The terms of required node affinity that a machine can satisfy before its Node has a name."""
    if terms and all(term.match_fields for term in terms):
        raise ValueError("matchFields selects existing Nodes only: use matchExpressions")
    return [found for term in terms if (found := _node_term(term)) is not None]


def _node_term(term: NodeSelectorTerm) -> dict[str, ValueSet] | None:
    """A term of node affinity; None for one that no new machine satisfies.

    It is empty, its expressions contradict each other, or it selects an existing Node by its name.
    """
    if term.match_fields:
        return None
    found: dict[str, ValueSet] = {}
    for expression in term.match_expressions:
        wanted = of_entries((expression,))
        if excludes(found, wanted):
            return None
        found |= combine({key: found[key] for key in wanted if key in found}, wanted)
    return found or None


def _topology(spec: PodSpec, namespace: str, labels: Mapping[str, str]) -> Iterator[model.TopologyTerm]:
    for one in spec.topology_spread_constraints:
        yield model.TopologyTerm(
            kind="spread",
            key=normalise_key(one.topology_key),
            selector=_selector(one.label_selector, labels, one.match_label_keys),
            namespaces=(model.Namespaces(names=frozenset((namespace,))),),
            max_skew=one.max_skew,
            min_domains=one.min_domains or 0,
            honor_affinity=one.node_affinity_policy != "Ignore",
            honor_taints=one.node_taints_policy == "Honor",
            weight=0 if one.when_unsatisfiable == "DoNotSchedule" else 1,
        )
    if spec.affinity is not None:
        yield from _pod_terms("affinity", spec.affinity.pod_affinity, namespace, labels)
        yield from _pod_terms("anti-affinity", spec.affinity.pod_anti_affinity, namespace, labels)


def _pod_terms(
    kind: str, found: PodAffinity, namespace: str, labels: Mapping[str, str]
) -> Iterator[model.TopologyTerm]:
    required = [_pod_term(kind, term, namespace, labels) for term in found.required]
    yield from _all_at_once(required) if kind == "affinity" else required
    for one in found.preferred:
        yield _pod_term(kind, one.pod_affinity_term, namespace, labels, one.weight)


def _all_at_once(terms: Sequence[model.TopologyTerm]) -> Iterator[model.TopologyTerm]:
    """Required terms of pod affinity: kube-scheduler counts only pods that all of them select, for each of them.

    They share what they select: terms of the same label are one, and a thousand of them cost as much as they are long.
    """
    selector = model.selecting_all(term.selector for term in terms)
    namespaces = (*dict.fromkeys(one for term in terms for one in term.namespaces),)
    by_key = {term.key: term for term in terms}
    for term in by_key.values():
        yield msgspec.structs.replace(term, selector=selector, namespaces=namespaces)


def _pod_term(
    kind: str, term: PodAffinityTerm, namespace: str, labels: Mapping[str, str], weight: int = 0
) -> model.TopologyTerm:
    return model.TopologyTerm(
        kind=kind,
        key=normalise_key(term.topology_key),
        selector=_selector(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys),
        namespaces=(_namespaces(term, namespace),),
        weight=weight,
    )


def _namespaces(term: PodAffinityTerm, namespace: str) -> model.Namespaces:
    """Those of a term; without names and selector that of its pod."""
    own = () if term.namespace_selector is not None else (namespace,)
    return model.Namespaces(names=frozenset(term.namespaces or own), selector=_selector(term.namespace_selector, EMPTY))


def _selector(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    same: Sequence[str] = (),
    other: Sequence[str] = (),
) -> model.LabelSelector:
    """The selector with matchLabelKeys (`same`) and mismatchLabelKeys (`other`); keys that the pod lacks do not count.

    The API server adds both to the selectors of pod affinity, and kube-scheduler those of spread constraints.
    """
    if selector is None:
        return model.LabelSelector()
    expressions = [
        *(("In", key, (value,)) for key, value in selector.match_labels.items()),
        *((one.operator, one.key, one.values) for one in selector.match_expressions),
        *(("In", key, (labels[key],)) for key in same if key in labels),
        *(("NotIn", key, (labels[key],)) for key in other if key in labels),
    ]
    return model.LabelSelector(expressions=frozenset((key, value_set(name, found)) for name, key, found in expressions))


def shape_key(spec: model.PodSpec) -> bytes:
    """Equal for constraints of one namespace that differ in the labels of the pod only."""
    return _key(spec, spec.namespace, ())


def _key(spec: model.PodSpec, namespace: str, selected: Collection[str]) -> bytes:
    labels = {key: value for key, value in spec.labels.items() if key in selected}
    text = repr(
        (
            namespace,
            sorted(labels.items()),
            sorted(spec.requests.items()),
            [_sorted(one) for one in spec.alternatives],
            [(one.weight, _sorted(one.requirements)) for one in spec.preferences],
            spec.tolerations,
            _of_terms(spec.topology),
            [_sorted(one) for one in spec.volumes],
            sorted(spec.host_ports),
            (sorted(spec.misfits.types), sorted(spec.misfits.nodes), spec.misfits.waits, spec.misfits.node_pools),
            _key(spec.otherwise, namespace, selected) if spec.otherwise is not None else b"",
        )
    )
    # A digest, because a pod can have megabytes of constraints.
    return sha256(text.encode()).digest()


def _sorted(found: Requirements) -> list[tuple[object, ...]]:
    return [_of_expression(key, one) for key, one in sorted(found.items())]


def _of_expression(key: str, one: ValueSet) -> tuple[object, ...]:
    return key, one.complement, sorted(one.values), one.least, one.most


def _of_selector(selector: model.LabelSelector) -> list[str] | None:
    found = selector.expressions
    return None if found is None else sorted(repr(_of_expression(*one)) for one in found)


def _of_terms(terms: Iterable[model.TopologyTerm]) -> tuple[object, ...]:
    """The terms, and what they select, each only once: terms of pod affinity share it."""
    selectors, places = dict[model.LabelSelector, int](), dict[tuple[model.Namespaces, ...], int]()
    found = [
        (
            term.kind,
            term.key,
            selectors.setdefault(term.selector, len(selectors)),
            places.setdefault(term.namespaces, len(places)),
            term.max_skew,
            term.min_domains,
            term.honor_affinity,
            term.honor_taints,
            term.weight,
        )
        for term in terms
    ]
    named = [[(sorted(one.names), _of_selector(one.selector)) for one in place] for place in places]
    return found, [_of_selector(one) for one in selectors], named
