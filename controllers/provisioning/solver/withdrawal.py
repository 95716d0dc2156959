"""Takes pods back that kube-scheduler would not bind: too few others found a machine for their topology spread.

Domains are chosen as if every pod found a machine there, and as if no other pod added a domain. At the end of an
attempt limits may have left a domain with too few pods, a machine of other pods may be the first one of a domain, or
pods that a constraint counts may have joined those that have it. A domain without any machine is not compared.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from provisioner.api.value_sets import one_of

from .nodes import Host
from .places import included, placed
from .topology import Domains, Spread
from .work import Work


class Put(NamedTuple):
    """Units as they were put on a machine."""

    host: Host
    work: Work
    units: Sequence[tuple[str, ...]]


def withdraw(puts: Sequence[Put], domains: Domains, planned: Sequence[Host]) -> list[Work]:
    """Take back the pods that exceed the skew of their constraint, the last ones first; returns them.

    Machines whose labels are open are restricted to the domains that the constraints of the others have compared, and
    their own.
    """
    found: list[Work] = []
    machines = _Machines(planned)
    while True:
        compared: dict[str, set[frozenset[str]]] = {}
        taken: list[Work] = []
        for spread in domains.spreads:
            used = spread.compared | machines.domains(spread, besides=spread.compared)
            if domains.excess(spread, used):
                used = spread.present | machines.domains(spread)
                for domain, pods in domains.excess(spread, used).items():
                    taken += _taken_back(puts, spread, domain, pods, domains)
            compared.setdefault(spread.term.key, set()).add(used)
        found += taken
        if not taken:
            break
    for host in planned:
        for key, sets in compared.items():
            if (own := host.labels.get(key)) is not None:
                host.labelled = host.labelled.requiring({key: one_of(frozenset.intersection(*sets) | {own})})
    return found


class _Machines:
    """Planned machines by label and value."""

    def __init__(self, planned: Sequence[Host]) -> None:
        self._planned = planned
        self._by_key: dict[str, dict[str, list[Host]]] = {}

    def domains(self, spread: Spread, besides: Collection[str] = ()) -> frozenset[str]:
        """The domains of machines that a constraint concerns, without those of `besides`."""
        key = spread.term.key
        if key not in self._by_key:
            found = self._by_key[key] = {}
            for host in self._planned:
                if (value := host.labels.get(key)) is not None:
                    found.setdefault(value, []).append(host)
        return frozenset(
            value
            for value, hosts in self._by_key[key].items()
            if value not in besides and any(included(spread.term, spread.spec, one.place) for one in hosts)
        )


def _taken_back(puts: Sequence[Put], spread: Spread, domain: str, pods: int, domains: Domains) -> list[Work]:
    found: list[Work] = []
    for host, work, units in reversed(puts):
        if pods <= 0:
            break
        if work.spec is not spread.spec or host.labels.get(spread.term.key) != domain:
            continue
        left = [name for unit in units for name in unit if name in host.pods]
        taken = left[max(0, len(left) - pods) :]
        if not taken:
            continue
        pods -= len(taken)
        host.take_back(work.spec, taken)
        domains.add(placed(work.spec, work.view.topology, host.labels, -len(taken), host.place))
        again = work.again([(name,) for name in taken])
        again.why = f"machines for its topology spread over {spread.term.key} are limited in another domain"
        found.append(again)
    return found
