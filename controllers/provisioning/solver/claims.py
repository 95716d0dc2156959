"""From a planned machine to the NodeClaim that is created for it.

The NodeClaim lists every instance type that takes the same pods for at most 15 % more than the chosen one, cheapest
first, so that a shortage of one type does not end in a machine that is much dearer.
"""

from collections.abc import Iterable

from provisioner.api import labels

from .candidates import UNKNOWN_PRICE, Candidate, candidates_of
from .model import NewMachine, Snapshot
from .nodes import Host
from .requirements import Requirements, combine, conflict, one_of
from .resources import fits, total

TOLERATED_PRICE = 1.15


def new_machine(snapshot: Snapshot, host: Host, offered: tuple[Candidate, ...]) -> NewMachine:
    """The NodeClaim for a planned machine. `offered`: all candidates."""
    chosen = host.candidate
    if chosen is None:
        raise ValueError(f"{host.name} is an existing machine")
    required = combine(chosen.pool.requirements, host.required)
    alike = [
        one
        for one in candidates_of(offered, chosen.pool)
        if fits(host.requested, one.allocatable)
        and not conflict(one.requirements, required, {*snapshot.well_known, *required})
        and all(one.capacity.get(name, 0) <= chosen.capacity.get(name, 0) for name in chosen.pool.limits)
    ]
    ceiling = chosen.price * TOLERATED_PRICE + 1e-9
    kept = [one for one in alike if one.price <= ceiling]
    kept = _with_min_values(kept, alike, required)
    kept.sort(key=lambda one: (one.price, one.type_name != chosen.type_name, one.type_name, one.zone))
    names = tuple(dict.fromkeys(one.type_name for one in kept))
    narrowed = combine(
        required,
        {
            labels.INSTANCE_TYPE: one_of(names),
            labels.CAPACITY_TYPE: one_of(one.capacity_type for one in kept),
        },
        _zones(kept),
    )
    return NewMachine(
        node_pool=chosen.pool.name,
        pods=tuple(sorted(host.pods)),
        instance_types=names,
        requirements=narrowed,
        requests=total((host.requested, chosen.daemon_requests)),
        price=None if chosen.price >= UNKNOWN_PRICE else chosen.price,
    )


def _zones(kept: Iterable[Candidate]) -> Requirements:
    """The zones of the kept offerings; none if one of them is regional, so that Azure chooses where the machine is."""
    zones = {one.zone for one in kept}
    return {} if "" in zones else {labels.ZONE: one_of(zones)}


def lacks_min_values(machine: NewMachine, offered: Iterable[Candidate]) -> str:
    """The first label for which the instance types of a machine have fewer values than `minValues`, "" if none."""
    kept = [c for c in offered if c.pool.name == machine.node_pool and c.type_name in machine.instance_types]
    return _short_of(machine.requirements, kept)


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
