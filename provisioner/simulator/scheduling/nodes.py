"""The Nodes with the pods bound to them, as one scheduling pass sees them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from .requests import Amounts, Json, amounts, pod_requests

FINISHED = ("Succeeded", "Failed")
# Host address, protocol, number.
Port = tuple[str, str, int]


@dataclass(kw_only=True)
class NodeInfo:
    """`requested`: the sum of the requests of `pods`; the pods are not changed."""

    node: Json
    labels: dict[str, str]
    taints: list[Json]
    allocatable: Amounts
    pods: list[Json] = field(default_factory=list)
    requested: Amounts = field(default_factory=dict)
    ports: list[Port] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    def add(self, pod: Json) -> None:
        """Count a pod that is bound to this Node."""
        self.pods.append(pod)
        for name, amount in pod_requests(pod["spec"]).items():
            self.requested[name] = self.requested.get(name, Decimal(0)) + amount
        self.ports.extend(host_ports(pod))


def snapshot(nodes: Iterable[Json], pods: Iterable[Json]) -> list[NodeInfo]:
    """All Nodes, in order of their names, with their pods that have not finished."""
    found = {node["metadata"]["name"]: _info(node) for node in nodes}
    for pod in pods:
        info = found.get((pod.get("spec") or {}).get("nodeName", ""))
        if info is not None and (pod.get("status") or {}).get("phase") not in FINISHED:
            info.add(pod)
    return [found[name] for name in sorted(found)]


def _info(node: Json) -> NodeInfo:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return NodeInfo(
        node=node,
        labels=node["metadata"].get("labels") or {},
        taints=spec.get("taints") or [],
        allocatable=amounts(status.get("allocatable")),
    )


def host_ports(pod: Json) -> Iterator[Port]:
    """The ports of the Node that a pod occupies."""
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if number := port.get("hostPort"):
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", number  # noqa: S104
