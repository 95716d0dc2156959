"""Host ports: which pods cannot share a machine, compared as sets.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#ports.
"""

from collections.abc import Iterable

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
