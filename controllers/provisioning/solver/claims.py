"""From a planned machine to the NodeClaim that is created for it.

The NodeClaim lists every instance type that takes the same pods for at most 15 % more than the chosen one, cheapest
first, so that a shortage of one type does not end in a machine that is much dearer.
"""

from collections.abc import Hashable, Iterable

import msgspec

from provisioner.api import labels
from provisioner.api.value_sets import one_of

from .candidates import UNKNOWN_PRICE, Candidate
from .model import NewMachine, Snapshot
from .nodes import Host
from .offers import Offers
from .requirements import Requirements, combine, conflict
from .resources import total

TOLERATED_PRICE = 1.15


class Claims:
    """Converts planned machines. Machines of one candidate with equal requirements and requests differ in pods only."""

    def __init__(self, snapshot: Snapshot, offers: Offers) -> None:
        self._snapshot = snapshot
        self._offers = offers
        self._known: dict[Hashable, tuple[NewMachine, str]] = {}

    def of(self, host: Host) -> tuple[NewMachine, str]:
        """The NodeClaim, and the first label of which its types have fewer values than `minValues`, "" if none."""
        if host.candidate is None:
            raise ValueError(f"{host.name} is an existing machine")
        key = id(host.candidate), frozenset(host.required.items()), frozenset(host.requested.items())
        if key not in self._known:
            self._known[key] = self._made(host.candidate, host)
        machine, label = self._known[key]
        return msgspec.structs.replace(machine, pods=tuple(sorted(host.pods))), label

    def _made(self, chosen: Candidate, host: Host) -> tuple[NewMachine, str]:
        required = combine(chosen.pool.requirements, host.required)
        allowed = {*self._snapshot.well_known, *required}
        alike = [
            one
            for one in self._offers.picked(self._offers.of_pool(chosen.pool) & self._offers.roomy(host.requested))
            if not conflict(one.requirements, required, allowed)
            and all(one.capacity.get(name, 0) <= chosen.capacity.get(name, 0) for name in chosen.pool.limits)
        ]
        ceiling = chosen.price * TOLERATED_PRICE + 1e-9
        kept = [one for one in alike if one.price <= ceiling]
        kept = _with_min_values(kept, alike, required)
        kept.sort(key=lambda one: (one.price, one.type_name != chosen.type_name, one.type_name, one.zone))
        names = tuple(dict.fromkeys(one.type_name for one in kept))
        terms = one_of(one.capacity_type for one in kept)
        narrowed = combine(required, {labels.INSTANCE_TYPE: one_of(names), labels.CAPACITY_TYPE: terms}, _zones(kept))
        machine = NewMachine(
            node_pool=chosen.pool.name,
            pods=(),
            instance_types=names,
            requirements=narrowed,
            requests=total((host.requested, chosen.daemon_requests)),
            price=None if chosen.price >= UNKNOWN_PRICE else chosen.price,
        )
        offered = self._offers.picked(self._offers.of_pool(chosen.pool))
        return machine, _short_of(narrowed, (one for one in offered if one.type_name in names))


def _zones(kept: Iterable[Candidate]) -> Requirements:
    """The zones of the kept offerings; none if one of them is regional, so that Azure chooses where the machine is."""
    zones = {one.zone for one in kept}
    return {} if "" in zones else {labels.ZONE: one_of(zones)}


def _with_min_values(kept: list[Candidate], alike: list[Candidate], required: Requirements) -> list[Candidate]:
    """Adds dearer types, cheapest first, until every `minValues` is met; candidates come in the order of prices."""
    if not any(wanted.min_values for wanted in required.values()):
        return kept
    extended = [*kept]
    for one in alike:
        if not _short_of(required, extended):
            break
        if one not in extended:
            extended.append(one)
    return extended


def _short_of(required: Requirements, kept: Iterable[Candidate]) -> str:
    known = [*kept]
    for key, wanted in required.items():
        if wanted.min_values:
            found = {value for one in known for value in one.requirements.get(key, wanted).values}
            if len(found) < wanted.min_values:
                return key
    return ""
