"""Whether a pod fits a Node: the filters of kube-scheduler's default plugins, in their order.

The first filter that rejects a Node gives the reasons, with kube-scheduler's words. A rejection is resolvable if the
deletion of pods could lift it. Devices are in `device_claims`, volumes in `volumes`.

Source: https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins,
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/scheduler/framework/plugins.
"""

from collections.abc import Container, Mapping
from decimal import Decimal

from .matching import selects, tolerates, untolerated
from .nodes import NodeInfo, Port, host_ports
from .rejection import Rejection
from .requests import Amounts, Json
from .topology import Affinity, Spread

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a host port without an address


class Filters:
    """The filters of one pod, prepared once for all Nodes of a pass. `namespaces`: the labels of each by name.

    `extended`: the extended resources for which devices are allocated where a Node does not have them.
    """

    def __init__(
        self,
        pod: Json,
        requests: Amounts,
        infos: list[NodeInfo],
        namespaces: Mapping[str, dict[str, str]],
        extended: Container[str] = (),
    ) -> None:
        self._extended = extended
        self._pod = pod
        self._requests = requests
        self._ports = list(host_ports(pod))
        self._spread = Spread(pod, infos)
        self._affinity = Affinity(pod, infos, namespaces)

    def reject(self, info: NodeInfo) -> Rejection | None:
        """The reasons of the first filter that rejects the Node; None if the pod fits."""
        pod = self._pod
        if info.node.get("spec", {}).get("unschedulable") and not tolerates(pod, UNSCHEDULABLE_TAINT):
            return Rejection(("node(s) were unschedulable",))
        if untolerated(pod, info.taints, "NoSchedule", "NoExecute"):
            return Rejection(("node(s) had untolerated taint(s)",))
        if not selects(pod, info.labels, info.name):
            return Rejection(("node(s) didn't match Pod's node affinity/selector",))
        if _conflict(self._ports, info.ports):
            return Rejection(("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
        return self._insufficient(info) or self._spread.reject(info) or self._affinity.reject(info)

    def _insufficient(self, info: NodeInfo) -> Rejection | None:
        reasons, resolvable, none = [], True, Decimal(0)
        if len(info.pods) + 1 > info.allocatable.get("pods", none):
            reasons.append("Too many pods")
        for name, amount in self._requests.items():
            allocatable = info.allocatable.get(name, none)
            if name in self._extended and not allocatable:
                continue
            if amount > allocatable - info.requested.get(name, none):
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and amount <= allocatable
        return Rejection(tuple(reasons), resolvable) if reasons else None


def _conflict(wanted: list[Port], used: list[Port]) -> bool:
    """Whether a port is used at the same address, or at every address by one of both."""
    if not wanted or not used:
        return False
    taken, anywhere = set(used), {port[1:] for port in used}
    everywhere = {port[1:] for port in used if port[0] == _EVERY_ADDRESS}
    return any(one in taken or one[1:] in (anywhere if one[0] == _EVERY_ADDRESS else everywhere) for one in wanted)
