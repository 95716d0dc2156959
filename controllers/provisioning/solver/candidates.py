"""Machines that could be bought: one candidate for each NodePool, instance type and offering.

Zone and capacity type of a candidate are fixed, so that its price is known while pods are packed; `claims` opens both
again as far as the price allows. Of equal prices a machine outside all zones comes first, because Azure can place it
anywhere, unless that could add a domain to pods that are spread over zones or grouped by zone.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cloudprovider.cloud import InstanceOffering, InstanceType
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements, combine, conflict
from provisioner.api.restricted_labels import refused_key
from provisioner.api.value_sets import ABSENT, ANY, one_of
from provisioner.api.zones import is_regional

from .model import NodePool, Resources, Snapshot
from .overhead import Daemons, expected, fit, largest_together
from .resources import cost, total, without

SPOT = "spot"
# The price of an offering without a known price: higher than any machine, so that it is chosen last.
UNKNOWN_PRICE = 1e6


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """`allocatable`: without the requests of the daemon pods. `requirements`: of pool, type and offering together.

    `taints`: of its Nodes, those of the pool and of the offering. `priced`: its price is known.
    `cause`: why the offering is not available. `quotas`: what it uses of each quota.
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
    taints: tuple[Taint, ...] = ()
    host_ports: frozenset[tuple[str, int, str]] = frozenset()
    priced: bool = True
    cause: str = ""
    quotas: Mapping[str, int] = {}


def order_price(offering: InstanceOffering) -> float:
    """The price by which offerings are compared, USD an hour."""
    if offering.price is not None:
        return offering.price
    return UNKNOWN_PRICE if offering.order_price is None else offering.order_price


def candidates(snapshot: Snapshot, *, available: bool = True) -> tuple[Candidate, ...]:
    """All candidates with an available offering, or all without one, in the order of prices and names."""
    found = [one for pool in snapshot.node_pools for one in _of_pool(pool, snapshot, available=available)]
    zonal_first = _counts_zones(snapshot)

    def preference(one: Candidate) -> tuple[float, str, str, bool, str, bool]:
        # Of equal prices spot comes first: the price of an on-demand machine is the most that a spot machine costs.
        outside = is_regional(one.zone) is zonal_first
        return one.price, one.pool.name, one.type_name, outside, one.zone, one.capacity_type != SPOT

    return tuple(sorted(found, key=preference))


def _of_pool(pool: NodePool, snapshot: Snapshot, *, available: bool) -> Iterator[Candidate]:
    found = list[tuple[InstanceType, InstanceOffering, Requirements, tuple[Taint, ...], Daemons]]()
    for kind in snapshot.instance_types if pool.types is None else pool.types:
        daemons: dict[tuple[str, str], Daemons] = {}
        for offering, requirements in _offerings(pool, kind, snapshot.well_known, available=available):
            place, taints = (offering.zone, offering.capacity_type), _taints(pool, offering)
            if place not in daemons:
                daemons[place] = expected(snapshot.daemons, taints, requirements, snapshot.well_known, kind.allocatable)
            found.append((kind, offering, requirements, taints, daemons[place]))
    # Where no machine takes all daemon pods, some of them stay pending on each machine.
    some = not any(fit(daemons, kind.allocatable) for kind, _, _, _, daemons in found)
    for kind, offering, requirements, taints, every in found:
        counted = largest_together(every, kind.allocatable) if some else every
        requests = total(one.requests for one in counted)
        yield Candidate(
            pool=pool,
            type_name=kind.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price=order_price(offering),
            priced=offering.price is not None,
            requirements=requirements,
            allocatable=without(kind.allocatable, requests),
            capacity=_counted(pool, kind, offering),
            daemon_requests=requests,
            taints=taints,
            host_ports=frozenset(port for one in counted for port in one.host_ports),
            cause=offering.cause,
            quotas=offering.quotas,
        )


def _counted(pool: NodePool, kind: InstanceType, offering: InstanceOffering) -> Resources:
    """What the machine counts towards the limits of its NodePool."""
    if labels.COST_PER_HOUR not in pool.limits:
        return kind.capacity
    return {**kind.capacity, labels.COST_PER_HOUR: cost(offering.price)}


def _counts_zones(snapshot: Snapshot) -> bool:
    """Whether a first machine outside all zones could keep pods from their places.

    It adds a domain: pods that are spread over zones then have to use it too, and those of a NodePool with other zones
    cannot.
    """
    pods = (pod.spec for pod in snapshot.pods)
    bound = (pod.spec for node in snapshot.nodes for pod in node.pods)
    zones = {offering.zone for kind in snapshot.instance_types for offering in kind.offerings}
    regional = [zone for zone in zones if is_regional(zone)]
    return any(
        term.key == labels.ZONE and not term.weight
        for specs in (pods, bound)
        for spec in specs
        for term in spec.topology
    ) or not all(
        pool.requirements.get(labels.ZONE, ANY).allows(zone) for pool in snapshot.node_pools for zone in regional
    )


def _taints(pool: NodePool, offering: InstanceOffering) -> tuple[Taint, ...]:
    return (*pool.taints, *(one for one in offering.taints if one not in pool.taints))


def offers(pool: NodePool, types: Iterable[InstanceType], well_known: frozenset[str]) -> bool:
    """Whether any instance type with an available offering satisfies the requirements of a NodePool."""
    return any(True for kind in types for _ in _offerings(pool, kind, well_known))


def _offerings(
    pool: NodePool, kind: InstanceType, well_known: frozenset[str], *, available: bool = True
) -> Iterator[tuple[InstanceOffering, Requirements]]:
    """The offerings of a type that a NodePool allows, with the requirements of pool, type and offering."""
    if conflict(kind.requirements, _shared(pool.requirements, kind.requirements), well_known):
        return
    base = combine(pool.requirements, kind.requirements)
    for offering in kind.offerings:
        fixed = {
            **offering.requirements,
            labels.ZONE: one_of((offering.zone,)) if offering.zone else ABSENT,
            labels.CAPACITY_TYPE: one_of((offering.capacity_type,)),
        }
        if offering.available is available and not conflict(base, fixed, fixed):
            yield offering, {**base, **{key: base.get(key, ANY).intersection(one) for key, one in fixed.items()}}


def _shared(pool: Requirements, kind: Requirements) -> Requirements:
    """The requirements of a pool that concern a type: keys of which it has a value, and keys that only AKS can set."""
    return {key: wanted for key, wanted in pool.items() if key in kind or refused_key(key) is not None}
