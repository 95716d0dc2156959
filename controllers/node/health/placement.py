"""What keeps the pods of a DaemonSet or Job from one Node: taints, a node selector, a node affinity.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/.
"""

from collections.abc import Iterable, Mapping

import msgspec

from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.node_affinity import unmet
from provisioner.api.pod import Toleration
from provisioner.api.requirements import Requirement
from provisioner.api.taints import all_untolerated
from provisioner.api.workload import DaemonSet, Workload
from provisioner.vendors import VENDORS

_LIFECYCLE = "node.kubernetes.io/"
# The tolerations that the DaemonSet controller adds to each pod; the last one with the host's network only.
OF_DAEMON_PODS = (
    *(
        Toleration(key=f"{_LIFECYCLE}{key}", operator="Exists", effect="NoExecute")
        for key in ("not-ready", "unreachable")
    ),
    *(
        Toleration(key=f"{_LIFECYCLE}{key}", operator="Exists", effect="NoSchedule")
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
_NETWORK = Toleration(key=f"{_LIFECYCLE}network-unavailable", operator="Exists", effect="NoSchedule")
# Taints that others remove when the Node works: a toleration of them is no remedy.
PASSING = (_LIFECYCLE, "node.cloudprovider.kubernetes.io/", "karpenter.sh/", "readiness.k8s.io/")
# Objects of GPU operators that own DaemonSets.
OPERATOR_KINDS = frozenset(one.operator_kind for one in VENDORS if one.operator_kind)
NFD = "feature.node.kubernetes.io/"


class KeptAway(msgspec.Struct, frozen=True, kw_only=True):
    """The taints that a template does not tolerate, and the expressions that the Node does not meet."""

    taints: tuple[Taint, ...] = ()
    expressions: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.taints or self.expressions)


def keeps_away(workload: Workload, node: Node) -> KeptAway:
    """What keeps a pod of this DaemonSet or Job from the Node; false if nothing does."""
    spec, given = workload.spec.template.spec, tuple[Toleration, ...]()
    if isinstance(workload, DaemonSet):
        given = (*OF_DAEMON_PODS, *((_NETWORK,) if spec.host_network else ()))
    taints = all_untolerated(node.spec.taints, (*spec.tolerations, *given), ignore_preferred=True)
    return KeptAway(taints=tuple(taints), expressions=unmet(spec.node_selector, spec.affinity, node))


def name_of(workload: Workload) -> str:
    """`DaemonSet namespace/name`."""
    return f"{workload.kind} {workload.metadata.namespace}/{workload.metadata.name}"


def described(kept: KeptAway, node: Node, startup: Iterable[Taint] = ()) -> str:
    """Words that follow the name of the workload. `startup`: the startup taints of the claim."""
    parts = []
    if kept.taints:
        parts.append(f"does not tolerate {_and(_taint(taint, startup) for taint in kept.taints)}")
    if kept.expressions:
        parts.append(_and(expression(one, node.metadata.labels) for one in kept.expressions))
    return " and ".join(parts)


def expression(one: Requirement, labels: Mapping[str, str]) -> str:
    """What one expression requires and the Node has."""
    has = f"the Node has {one.key}={labels[one.key]}" if one.key in labels else "which the Node lacks"
    hint = " (is Node Feature Discovery installed?)" if one.key.startswith(NFD) and one.key not in labels else ""
    match one.operator:
        case "In" if len(one.values) == 1:
            return f"requires label {one.key}={one.values[0]}, {has}{hint}"
        case "In":
            return f"requires label {one.key} in ({', '.join(one.values)}), {has}{hint}"
        case "Exists":
            return f"requires label {one.key}, {has}{hint}"
        case "NotIn" | "DoesNotExist":
            return f"excludes Nodes with label {one.key}={labels.get(one.key, '')}"
        case _:
            return f"requires label {one.key} {one.operator} {', '.join(one.values)}, {has}{hint}"


def missing_tolerations(kept: KeptAway) -> tuple[Toleration, ...]:
    """The tolerations to add to the template, in the order of the taints. Taints that pass need none."""
    return tuple(
        Toleration(key=one.key, operator="Equal", value=one.value, effect=one.effect)
        if one.value
        else Toleration(key=one.key, operator="Exists", effect=one.effect)
        for one in kept.taints
        if not one.key.startswith(PASSING)
    )


def place_of(workload: Workload) -> str:
    """Where tolerations of its pods are to be added: its owner undoes a change of a DaemonSet of a GPU operator."""
    owners = workload.metadata.owner_references
    policy = next((one for one in owners if one.kind in OPERATOR_KINDS), None)
    if policy is None:
        return f"spec.template.spec of the {workload.kind}"
    return f"spec.daemonsets of {policy.kind} {policy.name}, which owns the {workload.kind}"


def snippet(tolerations: Iterable[Toleration], *, indent: int = 0) -> tuple[str, ...]:
    """The lines of YAML to add where `place_of` says."""
    lines = ["tolerations:"]
    for one in tolerations:
        # Keys and values such as "on", "8" or "true" are text.
        lines += [f'- key: "{one.key}"', f"  operator: {one.operator}"]
        lines += [f'  value: "{one.value}"'] if one.value else []
        lines += [f"  effect: {one.effect}"]
    return tuple(" " * indent + line for line in lines)


def _taint(taint: Taint, startup: Iterable[Taint]) -> str:
    own = any(taint.matches(one) for one in startup)
    return f"{'startup ' if own else ''}taint {taint}"


def _and(parts: Iterable[str]) -> str:
    found = [*parts]
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
