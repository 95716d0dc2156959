"""Topology spread constraints, pod affinity and pod anti-affinity: the required ones.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from provisioner.simulator.kube.selectors import label_selector

from .matching import selects, untolerated
from .nodes import NodeInfo
from .rejection import Rejection
from .requests import Json

Labels = dict[str, str]
# The key and the value of a topology label.
Pair = tuple[str, str]

_SKEWED = "node(s) didn't match pod topology spread constraints"


class Spread:
    """The constraints of one pod with `whenUnsatisfiable: DoNotSchedule`, counted over all Nodes."""

    def __init__(self, pod: Json, infos: list[NodeInfo]) -> None:
        constraints = pod["spec"].get("topologySpreadConstraints") or ()
        self._constraints = [c for c in constraints if c["whenUnsatisfiable"] == "DoNotSchedule"]
        self._labels = _labels(pod)
        self._selectors = [_with_label_keys(c, self._labels) for c in self._constraints]
        keys = [c["topologyKey"] for c in self._constraints]
        known = [info for info in infos if keys and all(key in info.labels for key in keys)]
        self._counts = [
            _matching_pods(pod, constraint, selector, [info for info in known if _included(pod, constraint, info)])
            for constraint, selector in zip(self._constraints, self._selectors, strict=True)
        ]

    def reject(self, info: NodeInfo) -> Rejection | None:
        for constraint, selector, counts in zip(self._constraints, self._selectors, self._counts, strict=True):
            value = info.labels.get(constraint["topologyKey"])
            if value is None:
                return Rejection((f"{_SKEWED} (missing required label)",))
            enough = len(counts) >= (constraint.get("minDomains") or 1)
            least = min(counts.values()) if enough else 0
            if counts.get(value, 0) + selector(self._labels) - least > constraint["maxSkew"]:
                return Rejection((_SKEWED,), resolvable=True)
        return None


def _with_label_keys(constraint: Json, labels: Labels) -> Callable[[Labels], bool]:
    selector = label_selector(constraint.get("labelSelector"))
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in labels]
    return lambda found: selector(found) and all(found.get(key) == labels[key] for key in keys)


def _included(pod: Json, constraint: Json, info: NodeInfo) -> bool:
    """Whether the Node counts as a part of its domain."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not selects(pod, info.labels, info.name):
        return False
    honors_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return not (honors_taints and untolerated(pod, info.taints, "NoSchedule", "NoExecute"))


def _matching_pods(
    pod: Json, constraint: Json, selector: Callable[[Labels], bool], infos: list[NodeInfo]
) -> dict[str, int]:
    """The number of selected pods in each domain."""
    counts: dict[str, int] = {}
    # An empty selector counts no pod, although it selects all.
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in _labels(pod)]
    counted = keys or any((constraint.get("labelSelector") or {}).values())
    for info in infos:
        value = info.labels[constraint["topologyKey"]]
        counts[value] = counts.get(value, 0) + sum(
            1
            for other in info.pods
            if counted
            and other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and "deletionTimestamp" not in other["metadata"]
            and selector(_labels(other))
        )
    return counts


class Affinity:
    """Required affinity and anti-affinity between one pod and all bound pods.

    `namespaces`: the labels of each Namespace by name.
    """

    def __init__(self, pod: Json, infos: list[NodeInfo], namespaces: Mapping[str, Labels]) -> None:
        self._pod = pod
        self._namespaces = namespaces
        self._near = _terms(pod, "podAffinity")
        self._apart = _terms(pod, "podAntiAffinity")
        self._near_counts: Counter[Pair] = Counter()
        self._apart_counts: Counter[Pair] = Counter()
        self._others_apart: Counter[Pair] = Counter()
        for info, other in [(one, other) for one in infos for other in one.pods]:
            theirs = _terms(other, "podAntiAffinity")
            if not (theirs or self._near or self._apart):
                continue
            if self._near and all(self._matches(term, pod, other) for term in self._near):
                self._near_counts.update(_pairs(self._near, info))
            self._apart_counts.update(_pairs([t for t in self._apart if self._matches(t, pod, other)], info))
            reverse = [t for t in theirs if self._matches(t, other, pod)]
            self._others_apart.update(_pairs(reverse, info))

    def reject(self, info: NodeInfo) -> Rejection | None:
        if not self._is_near(info):
            return Rejection(("node(s) didn't match pod affinity rules",))
        if any(self._apart_counts[pair] for pair in _pairs(self._apart, info)):
            return Rejection(("node(s) didn't match pod anti-affinity rules",), resolvable=True)
        if any(pair in self._others_apart for pair in info.labels.items()):
            return Rejection(("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
        return None

    def _is_near(self, info: NodeInfo) -> bool:
        if any(term["topologyKey"] not in info.labels for term in self._near):
            return False
        if all(self._near_counts[pair] for pair in _pairs(self._near, info)):
            return True
        # The first pod of a group with affinity to itself may be anywhere.
        return not self._near_counts and all(self._matches(term, self._pod, self._pod) for term in self._near)

    def _matches(self, term: Json, owner: Json, other: Json) -> bool:
        """Whether the term of its owner selects the other pod."""
        if not self._is_of(term, owner["metadata"]["namespace"], other["metadata"]["namespace"]):
            return False
        found, own = _labels(other), _labels(owner)
        same = all(found.get(key) == own[key] for key in term.get("matchLabelKeys") or () if key in own)
        differs = all(found.get(key) != own[key] for key in term.get("mismatchLabelKeys") or () if key in own)
        return same and differs and label_selector(term.get("labelSelector"))(found)

    def _is_of(self, term: Json, own: str, namespace: str) -> bool:
        named, selector = term.get("namespaces") or [], term.get("namespaceSelector")
        if namespace in (named or ([own] if selector is None else [])):
            return True
        labels = {"kubernetes.io/metadata.name": namespace, **self._namespaces.get(namespace, {})}
        return label_selector(selector)(labels)


def _terms(pod: Json, kind: str) -> list[Json]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _pairs(terms: list[Json], info: NodeInfo) -> Iterator[Pair]:
    for term in terms:
        if (value := info.labels.get(term["topologyKey"])) is not None:
            yield term["topologyKey"], value


def _labels(pod: Json) -> Labels:
    return pod["metadata"].get("labels") or {}
