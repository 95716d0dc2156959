"""Binds the pods of a decision one by one under the constraints that kube-scheduler enforces.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from .machines import Machine, requests
from .predicates import host_ports, matches_node, selects, tolerates

Pod = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DRAWN_ORDERS = 2


class Cluster:
    """Machines with the pods that are bound to them."""

    def __init__(self, scenario: Mapping[str, Any], machines: list[Machine]) -> None:
        self._namespaces = {one["metadata"]["name"]: one["metadata"]["labels"] for one in scenario["namespaces"]}
        self.machines = machines
        self.bound: list[tuple[Machine, Pod]] = [(one, pod) for one in machines for pod in one.running]

    def bind_all(self, pods: Mapping[str, Pod]) -> list[str]:
        """Bind each pod where the decision places it, in several orders; says which ones an order leaves.

        kube-scheduler tries a pod again when others are bound, but in which order it binds them is not known.
        """
        waiting = [(one, pods[name]) for one in self.machines for name in one.pods if name in pods]
        before = [*self.bound]
        left: list[str] = []
        for order in orders(waiting):
            self.bound = [*before]
            left = self._bound_in(order)
            if left:
                break
        return left

    def _bound_in(self, waiting: list[tuple[Machine, Pod]]) -> list[str]:
        while waiting:
            found = next((pair for pair in waiting if not any(True for _ in self.obstacles(*pair))), None)
            if found is None:
                return [f"{_name(pod)} on {one.name}: {next(self.obstacles(one, pod))}" for one, pod in waiting]
            waiting = [pair for pair in waiting if pair is not found]
            self.bound.append(found)
        return []

    def obstacles(self, machine: Machine, pod: Pod) -> Iterator[str]:
        """Why kube-scheduler does not bind a pod to a machine now, resources aside."""
        spec = pod["spec"]
        if not tolerates(spec, machine.taints):
            yield "taints"
        if not matches_node(machine.labels, [], spec):
            yield "node selector or node affinity"
        for other in self._on(machine):
            if host_ports(pod) & host_ports(other):
                yield f"host port of {_name(other)}"
        hard = [one for one in spec.get("topologySpreadConstraints", []) if one["whenUnsatisfiable"] == "DoNotSchedule"]
        yield from (text for one in hard if (text := self._skewed(machine, pod, one, hard)))
        affinity = spec.get("affinity", {})
        yield from self._apart(machine, pod)
        if terms := affinity.get("podAffinity", {}).get(REQUIRED, []):
            yield from self._near(machine, pod, terms)

    def _on(self, machine: Machine) -> Iterator[Pod]:
        return (pod for one, pod in self.bound if one is machine)

    def skewed_after(self, machine: Machine, pod: Pod, one: dict[str, Any]) -> bool:
        """Whether a bound pod violates a spread constraint."""
        before = self.bound
        self.bound = [pair for pair in before if pair[1] is not pod]
        skewed = bool(self._skewed(machine, pod, one, [one]))
        self.bound = before
        return skewed

    def _skewed(self, machine: Machine, pod: Pod, one: dict[str, Any], hard: list[dict[str, Any]]) -> str:
        key = one["topologyKey"]
        if key not in machine.labels:
            return f"no label {key}"
        values = [
            {"key": k, "operator": "In", "values": [pod["metadata"]["labels"][k]]}
            for k in one.get("matchLabelKeys", [])
        ]
        selector = {
            **one["labelSelector"],
            "matchExpressions": [*one["labelSelector"].get("matchExpressions", []), *values],
        }
        counted = Counter(
            {
                other.labels[key]: 0
                for other in self.machines
                if all(c["topologyKey"] in other.labels for c in hard) and _included(other, pod, one)
            }
        )
        for other, present in self.bound:
            domain = other.labels.get(key)
            if (
                domain in counted
                and _included(other, pod, one)
                and "deletionTimestamp" not in present["metadata"]
                and present["metadata"]["namespace"] == pod["metadata"]["namespace"]
                and selects(selector, present["metadata"]["labels"])
            ):
                counted[domain] += 1
        least = 0 if len(counted) < one.get("minDomains", 1) else min(counted.values(), default=0)
        itself = selects(selector, pod["metadata"]["labels"])
        skew = counted[machine.labels[key]] + itself - least
        return f"skew {skew} over {key} {dict(counted)}" if skew > one["maxSkew"] else ""

    def _apart(self, machine: Machine, pod: Pod) -> Iterator[str]:
        for term in pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, []):
            for other, present in self.bound:
                if self._same_domain(term, machine, other) and self.selected(term, pod, present):
                    yield f"anti-affinity to {_name(present)}"
        for other, present in self.bound:
            for term in present["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, []):
                if self._same_domain(term, machine, other) and self.selected(term, present, pod):
                    yield f"anti-affinity of {_name(present)}"

    def _near(self, machine: Machine, pod: Pod, terms: list[dict[str, Any]]) -> Iterator[str]:
        if any(term["topologyKey"] not in machine.labels for term in terms):
            yield "a label of its pod affinity is missing"
            return
        matching = [(m, p) for m, p in self.bound if all(self.selected(t, pod, p) for t in terms)]
        counted = any(term["topologyKey"] in other.labels for other, _ in matching for term in terms)
        if not counted and all(self.selected(term, pod, pod) for term in terms):
            return
        if not all(any(self._same_domain(term, machine, other) for other, _ in matching) for term in terms):
            yield "pod affinity"

    @staticmethod
    def _same_domain(term: Mapping[str, Any], one: Machine, other: Machine) -> bool:
        key = term["topologyKey"]
        return key in one.labels and one.labels[key] == other.labels.get(key)

    def selected(self, term: Mapping[str, Any], owner: Pod, other: Pod) -> bool:
        """Whether a term of pod affinity or anti-affinity of a pod selects another one."""
        namespace = other["metadata"]["namespace"]
        if "namespaceSelector" in term:
            inside = selects(term["namespaceSelector"], self._namespaces.get(namespace, {}))
            inside = inside or namespace in term.get("namespaces", [])
        else:
            inside = namespace in (term.get("namespaces") or [owner["metadata"]["namespace"]])
        return inside and selects(term["labelSelector"], other["metadata"]["labels"])


def shortages(machine: Machine, pods: Mapping[str, Pod]) -> dict[str, Any]:
    """What the pods of a decision request beyond what a machine has."""
    free = Counter(machine.free)
    for name in machine.pods:
        free.subtract(requests(pods[name]))
    return {name: amount for name, amount in free.items() if amount < 0} if machine.pods else {}


def _included(machine: Machine, pod: Pod, one: Mapping[str, Any]) -> bool:
    """Whether the inclusion policies of a spread constraint count a machine."""
    if one.get("nodeAffinityPolicy", "Honor") == "Honor" and not matches_node(machine.labels, [], pod["spec"]):
        return False
    return one.get("nodeTaintsPolicy", "Ignore") == "Ignore" or tolerates(pod["spec"], machine.taints)


def _name(pod: Pod) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def orders(waiting: list[tuple[Machine, Pod]]) -> Iterator[list[tuple[Machine, Pod]]]:
    """Orders in which kube-scheduler may try pods: by name, and those with a topology spread first or last."""
    yield sorted(waiting, key=lambda pair: _name(pair[1]))
    yield sorted(waiting, key=lambda pair: (not _spreads(pair[1]), _name(pair[1])))
    yield sorted(waiting, key=lambda pair: (_spreads(pair[1]), _name(pair[1])))
    rng = random.Random(len(waiting))
    for _ in range(DRAWN_ORDERS):
        yield rng.sample(waiting, len(waiting))


def _spreads(pod: Pod) -> bool:
    return bool(pod["spec"].get("topologySpreadConstraints"))
