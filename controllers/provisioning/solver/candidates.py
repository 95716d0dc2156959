"""Machines that could be bought: one candidate for each NodePool, instance type and offering.

Zone and capacity type of a candidate are fixed, so that its price is known while pods are packed; `claims` opens both
again as far as the price allows.
"""

from collections.abc import Iterable, Iterator

import msgspec

from provisioner.api import labels
from provisioner.api.taints import untolerated
from provisioner.api.value_sets import ABSENT, one_of

from .model import InstanceType, NodePool, Offering, PodSpec, Resources, Snapshot
from .requirements import Requirements, combine, conflict
from .resources import total, without
from .views import View

SPOT = "spot"
# The price of an offering without a known price: higher than any machine, so that it is chosen last.
UNKNOWN_PRICE = 1e6


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """`allocatable`: without the requests of the daemon pods. `requirements`: of pool, type and offering together.

    `cause`: why the offering is not available.
    """

    pool: NodePool
    type_name: str
    zone: str
    capacity_type: str
    price: float
    requirements: Requirements
    allocatable: Resources
    capacity: Resources
    daemon_requests: Resources
    host_ports: frozenset[tuple[str, int, str]] = frozenset()
    cause: str = ""


class Compatible(msgspec.Struct, frozen=True):
    """Why a pod fits a candidate: the first compatible alternative, and the keys that it leaves or makes open."""

    open: Requirements


def candidates(snapshot: Snapshot, *, available: bool = True) -> tuple[Candidate, ...]:
    """All candidates with an available offering, or all without one, in the order of prices and names."""
    found = []
    for pool in snapshot.node_pools:
        for kind in snapshot.instance_types if pool.types is None else pool.types:
            overheads: dict[tuple[str, str], tuple[Resources, frozenset[tuple[str, int, str]]]] = {}
            for offering, requirements in _offerings(pool, kind, snapshot.well_known, available=available):
                place = (offering.zone, offering.capacity_type)
                if place not in overheads:
                    overheads[place] = _daemons(snapshot.daemons, pool, requirements, snapshot.well_known)
                requests, ports = overheads[place]
                found.append(
                    Candidate(
                        pool=pool,
                        type_name=kind.name,
                        zone=offering.zone,
                        capacity_type=offering.capacity_type,
                        price=UNKNOWN_PRICE if offering.price is None else offering.price,
                        requirements=requirements,
                        allocatable=without(kind.allocatable, requests),
                        capacity=kind.capacity,
                        daemon_requests=requests,
                        host_ports=ports,
                        cause=offering.cause,
                    )
                )
    return tuple(sorted(found, key=_preference))


def offers(pool: NodePool, types: Iterable[InstanceType], well_known: frozenset[str]) -> bool:
    """Whether any instance type with an available offering satisfies the requirements of a NodePool."""
    return any(True for kind in types for _ in _offerings(pool, kind, well_known))


def _offerings(
    pool: NodePool, kind: InstanceType, well_known: frozenset[str], *, available: bool = True
) -> Iterator[tuple[Offering, Requirements]]:
    """The offerings of a type that a NodePool allows, with the requirements of pool, type and offering."""
    if conflict(kind.requirements, _shared(pool.requirements, kind.requirements), well_known):
        return
    base = combine(pool.requirements, kind.requirements)
    for offering in kind.offerings:
        fixed = combine(
            offering.requirements,
            {
                labels.ZONE: one_of((offering.zone,)) if offering.zone else ABSENT,
                labels.CAPACITY_TYPE: one_of((offering.capacity_type,)),
            },
        )
        if offering.available is available and not conflict(base, fixed, fixed):
            yield offering, combine(base, fixed)


def _preference(one: Candidate) -> tuple[float, str, str, str, bool]:
    # Of equal prices spot comes first: the price of an on-demand machine is the most that a spot machine costs.
    return one.price, one.pool.name, one.type_name, one.zone, one.capacity_type != SPOT


def compatible(candidate: Candidate, spec: PodSpec, view: View, well_known: frozenset[str]) -> Compatible | None:
    """How a pod fits an empty machine of this candidate, resources aside; None if it does not."""
    if untolerated(candidate.pool.taints, spec.tolerations, ignore_preferred=view.ignore_preferred_taints):
        return None
    if candidate.host_ports and ports_conflict(spec.host_ports, candidate.host_ports):
        return None
    for alternative in view.alternatives:
        if not conflict(candidate.requirements, alternative, well_known):
            return Compatible(
                {
                    key: wanted
                    for key, wanted in alternative.items()
                    if (offered := candidate.requirements.get(key)) is None or offered.single is None
                }
            )
    return None


def ports_conflict(one: Iterable[tuple[str, int, str]], other: Iterable[tuple[str, int, str]]) -> bool:
    """Whether two sets of host ports share one; an unspecified address conflicts with every address."""
    taken = tuple(other)
    return any(
        port == used and protocol == theirs and (address == at or "0.0.0.0" in (address, at))  # noqa: S104
        for address, port, protocol in one
        for at, used, theirs in taken
    )


def _shared(pool: Requirements, kind: Requirements) -> Requirements:
    """The requirements of a pool that concern a type: keys of which the type has a value, or must have one."""
    return {key: wanted for key, wanted in pool.items() if key in kind}


def _daemons(
    daemons: Iterable[PodSpec], pool: NodePool, requirements: Requirements, well_known: frozenset[str]
) -> tuple[Resources, frozenset[tuple[str, int, str]]]:
    expected = [
        daemon
        for daemon in daemons
        if not untolerated(pool.taints, daemon.tolerations, ignore_preferred=True)
        and any(not conflict(requirements, one, well_known) for one in daemon.alternatives)
    ]
    return total(daemon.requests for daemon in expected), frozenset(p for d in expected for p in d.host_ports)
