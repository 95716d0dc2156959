"""What kube-scheduler requires of one pod and one node, written from its documentation and not from the solver.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/,
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def tolerates(spec: Mapping[str, Any], taints: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a pod tolerates all taints that keep pods away."""
    return all(
        taint["effect"] == "PreferNoSchedule" or any(_tolerates(one, taint) for one in spec.get("tolerations", []))
        for taint in taints
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key = toleration.get("key", "")
    if toleration.get("operator", "Equal") == "Exists":
        return key in ("", taint["key"])
    return bool(key == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def matches_node(
    labels: Mapping[str, str], expressions: Iterable[Mapping[str, Any]], spec: Mapping[str, Any] | None = None
) -> bool:
    """Whether labels satisfy expressions, and the node selector and required node affinity of a pod."""
    if not all(_holds(labels, one) for one in expressions):
        return False
    found = spec or {}
    if any(labels.get(key) != value for key, value in found.get("nodeSelector", {}).items()):
        return False
    node_affinity = found.get("affinity", {}).get("nodeAffinity", {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(all(_holds(labels, e) for e in term["matchExpressions"]) for term in required["nodeSelectorTerms"])


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects an object; no selector selects none."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(labels, one) for one in selector.get("matchExpressions", []))


def host_ports(pod: Mapping[str, Any]) -> set[tuple[str, int]]:
    """The ports that a pod takes of its node; all addresses of drawn ports are the unspecified one."""
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if port.get("hostPort")
    }


def _holds(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    value, operator, values = labels.get(expression["key"]), expression["operator"], expression.get("values", [])
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None:
        return False
    number, bound = int(value), int(values[0])
    return {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}[operator]
