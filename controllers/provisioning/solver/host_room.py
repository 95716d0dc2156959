"""Constraints over hostnames, and host ports: how many pods of a kind may join others on one machine.

Source: docs/references/kubernetes.md#topology-constraints,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#ports.
"""

from collections.abc import Iterable, Sequence

from provisioner.api.labels import HOSTNAME

from .model import PodSpec, TopologyTerm
from .resources import UNLIMITED
from .selection import Selection

Ports = frozenset[tuple[str, int, str]]
ANY_ADDRESS = "0.0.0.0"  # noqa: S104


def ports_conflict(one: Ports, other: Ports) -> bool:
    """Whether two sets of host ports share one; an unspecified address conflicts with every address."""
    if not one.isdisjoint(other):
        return True
    shared = {(port, protocol) for _, port, protocol in one} & {(port, protocol) for _, port, protocol in other}
    return bool(shared) and any(
        address == ANY_ADDRESS and (port, protocol) in shared
        for ports in (one, other)
        for address, port, protocol in ports
    )


class PortUse:
    """The host ports of many users, each a set of bits, by number and protocol."""

    def __init__(self, users: Iterable[tuple[int, Ports]]) -> None:
        self._taken: dict[tuple[int, str], dict[str, int]] = {}
        for user, ports in users:
            for address, port, protocol in ports:
                addresses = self._taken.setdefault((port, protocol), {})
                addresses[address] = addresses.get(address, 0) | user

    def taken(self, ports: Ports) -> int:
        """The users with which a pod of these ports conflicts."""
        found = 0
        for address, port, protocol in ports:
            for other, users in self._taken.get((port, protocol), {}).items():
                if address == other or ANY_ADDRESS in (address, other):
                    found |= users
        return found


def host_room(
    present: Sequence[tuple[PodSpec, int]],
    spec: PodSpec,
    terms: Sequence[TopologyTerm],
    selection: Selection,
) -> int:
    """How many pods of a spec may join the pods that are present on one machine, as far as these do not keep them out.

    `present` has a spec and a number of pods for each kind of pod on the machine.
    """
    room = UNLIMITED
    if spec.host_ports:
        room = 1
        if any(ports_conflict(spec.host_ports, other.host_ports) for other, _ in present):
            return 0
    for term in terms:
        if term.key != HOSTNAME:
            continue
        matched = sum(n for other, n in present if selection.selects(term, other))
        counts_itself = selection.selects(term, spec)
        match term.kind:
            case "spread" if counts_itself:
                room = min(room, term.max_skew - matched)
            case "spread":
                room = room if matched <= term.max_skew else 0
            case "anti-affinity":
                room = 0 if matched else min(room, 1 if counts_itself else room)
            case "affinity" if not matched and not counts_itself:
                room = 0
    return max(0, room)
