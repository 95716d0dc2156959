"""What NetworkPolicies permit, by their specification and by what Cilium makes of it, without a network plugin.

Sources: https://kubernetes.io/docs/concepts/services-networking/network-policies/,
https://docs.cilium.io/en/stable/network/kubernetes/policy/ (known gaps): an `ipBlock` of Cilium matches no Pod, no Node
and not the API server.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Literal

Json = dict[str, Any]
Direction = Literal["Ingress", "Egress"]
Plugin = Literal["specification", "Cilium"]
PLUGINS: tuple[Plugin, ...] = ("specification", "Cilium")


@dataclass(frozen=True)
class Peer:
    """The other side of a connection; `pod` and `namespace` are the labels of a Pod, `outside`: not of the cluster."""

    ip: str
    pod: Json = field(default_factory=dict)
    namespace: Json = field(default_factory=dict)
    outside: bool = False

    @property
    def is_pod(self) -> bool:
        return bool(self.namespace)


@dataclass(frozen=True)
class Connection:
    """To or from a Pod of the release; `port` is that of the side that accepts it."""

    direction: Direction
    peer: Peer
    port: int
    protocol: str = "TCP"


def permitted(policies: Iterable[Json], pod: Json, namespace: Json, wanted: Connection, plugin: Plugin) -> bool:
    """Whether the policies of the Pod's namespace let it have this connection; without one of its own anything is."""
    selecting = [one["spec"] for one in policies if matches(one["spec"]["podSelector"], pod)]
    isolating = [spec for spec in selecting if wanted.direction in _types(spec)]
    rules = [rule for spec in isolating for rule in spec.get(wanted.direction.lower()) or ()]
    return not isolating or any(_allows(rule, wanted, namespace, plugin) for rule in rules)


def matches(selector: Json, labels: Json) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    found = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return found and all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(one: Json, labels: Json) -> bool:
    value, values = labels.get(one["key"]), one.get("values", ())
    holds = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return holds[one["operator"]]


def _types(spec: Json) -> Iterable[str]:
    return spec.get("policyTypes") or ("Ingress", *(("Egress",) if spec.get("egress") else ()))


def _allows(rule: Json, wanted: Connection, namespace: Json, plugin: Plugin) -> bool:
    ports, peers = rule.get("ports"), rule.get("from" if wanted.direction == "Ingress" else "to")
    if ports and not any(_is_port(one, wanted) for one in ports):
        return False
    return not peers or any(_is_peer(one, wanted.peer, namespace, plugin) for one in peers)


def _is_port(one: Json, wanted: Connection) -> bool:
    if one.get("protocol", "TCP") != wanted.protocol:
        return False
    if "port" not in one:
        return True
    first: int = one["port"]
    return first <= wanted.port <= one.get("endPort", first)


def _is_peer(one: Json, peer: Peer, own: Json, plugin: Plugin) -> bool:
    if block := one.get("ipBlock"):
        inside = ip_address(peer.ip) in ip_network(block["cidr"])
        left_out = any(ip_address(peer.ip) in ip_network(some) for some in block.get("except") or ())
        return inside and not left_out and (peer.outside or plugin == "specification")
    namespaces = one.get("namespaceSelector")
    there = peer.namespace == own if namespaces is None else matches(namespaces, peer.namespace)
    return peer.is_pod and there and matches(one.get("podSelector") or {}, peer.pod)
