"""Which taints a pod tolerates, and which Nodes it selects.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/.
"""

from provisioner.simulator.kube.selectors import expressions

from .requests import Json


def tolerates(pod: Json, taint: Json) -> bool:
    """Whether a toleration of the pod matches the taint."""
    return any(matches(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())


def matches(toleration: Json, taint: Json) -> bool:
    """Whether the toleration matches the taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(
        toleration.get("value", "") == taint.get("value", "") and toleration.get("operator", "Equal") == "Equal"
    )


def untolerated(pod: Json, taints: list[Json], *effects: str) -> list[Json]:
    """The taints with one of these effects that the pod does not tolerate."""
    return [taint for taint in taints if taint.get("effect") in effects and not tolerates(pod, taint)]


def selects(pod: Json, labels: dict[str, str], name: str) -> bool:
    """Whether nodeSelector and required node affinity select a Node with these labels."""
    spec = pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is None:
        return True
    return any(term_selects(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def term_selects(term: Json, labels: dict[str, str], name: str) -> bool:
    """Whether a term of node affinity selects this Node; an empty one selects nothing."""
    by_label, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not by_label and not by_field:
        return False
    return expressions(by_label)(labels) and expressions(by_field)({"metadata.name": name})
