"""What scheduling compares of a Pod, from the Pod as the API server returns it.

Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from provisioner.api.requirements import normalise_key
from provisioner.api.schedulable import (
    Container,
    LabelSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    SchedulablePod,
    SchedulablePodSpec,
    SelectorExpression,
)
from provisioner.api.value_sets import ValueSet, value_set

from .solver import model
from .solver.requirements import Requirements, combine, excludes, of_labels
from .solver.resources import largest, parse, total
from .solver.topology import EVERY_NAMESPACE


def interchangeable(
    pending: Iterable[tuple[str, model.PodSpec]], bound: Iterable[model.PodSpec]
) -> tuple[model.Pod, ...]:
    """Pending pods by name, with equal keys for those that scheduling cannot tell apart.

    Labels that no constraint of any pod selects do not count: the pods of a StatefulSet or of an indexed Job have
    labels of their own.
    """
    found = [*pending]
    known: dict[int, bytes] = {}
    selectors = [term.selector for spec in (*(one for _, one in found), *bound) for term in spec.topology]
    keys = {key for selector in selectors for key in selector.requirements}
    for _, spec in found:
        if id(spec) not in known:
            known[id(spec)] = _key(spec, keys)
    return tuple(model.Pod(name=name, spec=spec, key=known[id(spec)]) for name, spec in found)


def podspec(found: SchedulablePod) -> model.PodSpec:
    """The constraints and requests of a pod. Raises ValueError that names the field."""
    spec, labels = found.spec, found.metadata.labels
    namespace = found.metadata.namespace or "default"
    affinity = spec.affinity
    selector = of_labels(spec.node_selector)
    alternatives: tuple[Requirements, ...] = (selector,)
    preferences: tuple[model.Preference, ...] = ()
    if affinity is not None:
        required = affinity.node_affinity.required
        if required is not None:
            terms = [_node_term(term) for term in required.node_selector_terms]
            alternatives = tuple(combine(selector, t) for t in terms if t is not None and not excludes(selector, t))
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
        host_ports=frozenset(
            (port.host_ip or "0.0.0.0", port.host_port, port.protocol or "TCP")  # noqa: S104
            for container in (*spec.containers, *spec.init_containers)
            for port in container.ports
            if port.host_port
        ),
    )


def requests(spec: SchedulablePodSpec) -> dict[str, int]:
    """The effective requests of a pod, itself counted as 1 of resource `pods`."""
    running, peak, sidecars = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in spec.init_containers:
        own = _container(container)
        if container.restart_policy == "Always":
            sidecars = total((sidecars, own))
            peak = largest((peak, sidecars))
        else:
            peak = largest((peak, total((sidecars, own))))
    running = total((sidecars, *(_container(one) for one in spec.containers)))
    effective = largest((running, peak))
    if spec.resources is not None:
        effective |= parse(spec.resources.limits) | parse(spec.resources.requests)
    return {"pods": 1000, **{name: n for name, n in total((effective, parse(spec.overhead))).items() if n > 0}}


def label_requirements(expressions: Iterable[SelectorExpression]) -> dict[str, ValueSet]:
    """The intersection of expressions, key by key. Raises ValueError for an invalid one."""
    combined: dict[str, ValueSet] = {}
    for one in expressions:
        key = normalise_key(one.key)
        try:
            wanted = value_set(one.operator, one.values)
        except ValueError as error:
            raise ValueError(f"{one.key}: {error}") from None
        combined = combine(combined, {key: wanted})
    return combined


def label_selector(selector: LabelSelector | None) -> model.LabelSelector:
    """A selector of pods; None selects none. Raises ValueError for an invalid one."""
    return _selector(selector, (), {})


def _container(container: Container) -> dict[str, int]:
    return parse(container.resources.limits) | parse(container.resources.requests)


def _node_term(term: NodeSelectorTerm) -> dict[str, ValueSet] | None:
    """A term of node affinity; None for one that matches nothing: it is empty, or its expressions contradict."""
    if term.match_fields:
        raise ValueError("matchFields selects existing Nodes only: use matchExpressions")
    found: dict[str, ValueSet] = {}
    for expression in term.match_expressions:
        wanted = label_requirements((expression,))
        if excludes(found, wanted):
            return None
        found = combine(found, wanted)
    return found or None


def _topology(spec: SchedulablePodSpec, namespace: str, labels: Mapping[str, str]) -> Iterator[model.TopologyTerm]:
    for one in spec.topology_spread_constraints:
        yield model.TopologyTerm(
            kind="spread",
            key=normalise_key(one.topology_key),
            selector=_selector(one.label_selector, one.match_label_keys, labels),
            namespaces=frozenset((namespace,)),
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
    weighted = [(0, term) for term in found.required] + [(p.weight, p.pod_affinity_term) for p in found.preferred]
    for weight, term in weighted:
        yield model.TopologyTerm(
            kind=kind,
            key=normalise_key(term.topology_key),
            selector=_selector(term.label_selector, term.match_label_keys, labels),
            namespaces=_namespaces(term, namespace),
            weight=weight,
        )


def _namespaces(term: PodAffinityTerm, namespace: str) -> frozenset[str]:
    # The labels of namespaces are not part of the snapshot, so that any selector of namespaces counts as all of them.
    if term.namespace_selector is not None:
        return frozenset((EVERY_NAMESPACE,))
    return frozenset(term.namespaces or (namespace,))


def _selector(
    selector: LabelSelector | None, label_keys: Sequence[str], labels: Mapping[str, str]
) -> model.LabelSelector:
    if selector is None:
        return model.LabelSelector()
    own = {key: labels[key] for key in label_keys if key in labels}
    found = combine(
        {key: value_set("In", (value,)) for key, value in {**selector.match_labels, **own}.items()},
        {},
    )
    extra = [SelectorExpression(key=e.key, operator=e.operator, values=e.values) for e in selector.match_expressions]
    for one in extra:
        found = combine(found, {one.key: value_set(one.operator, one.values)})
    return model.LabelSelector(requirements=found, everything=not found)


def _key(spec: model.PodSpec, selected: Collection[str]) -> bytes:
    labels = {key: value for key, value in spec.labels.items() if key in selected}
    return repr(
        (
            spec.namespace if selected or spec.topology else "",
            sorted(labels.items()),
            sorted(spec.requests.items()),
            [_sorted(one) for one in spec.alternatives],
            [(one.weight, _sorted(one.requirements)) for one in spec.preferences],
            spec.tolerations,
            [(term.kind, term.key, _sorted(term.selector.requirements), *_rest(term)) for term in spec.topology],
            [_sorted(one) for one in spec.volumes],
            sorted(spec.host_ports),
        )
    ).encode()


def _sorted(found: Requirements) -> list[tuple[object, ...]]:
    return [(key, one.complement, sorted(one.values), one.least, one.most) for key, one in sorted(found.items())]


def _rest(term: model.TopologyTerm) -> tuple[object, ...]:
    return (
        term.selector.everything,
        sorted(term.namespaces),
        term.max_skew,
        term.min_domains,
        term.honor_affinity,
        term.honor_taints,
        term.weight,
    )
