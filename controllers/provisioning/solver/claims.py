"""From a planned machine to the NodeClaim that is created for it.

The NodeClaim lists every instance type that takes the same pods for at most 15 % more than the chosen one, cheapest
first, so that a shortage of one type does not end in a machine that is much dearer. That holds for each combination of
the types, capacity types and zones that it lists, because the launch may try all of them. Under a limit on the cost of
the NodePool nothing dearer than the chosen machine is listed, unless `minValues` need it.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import product
from math import inf

import msgspec

from provisioner.api import labels
from provisioner.api.requirements import Requirements, combine, conflict
from provisioner.api.taints import untolerated
from provisioner.api.value_sets import ANY, one_of
from provisioner.api.zones import is_regional

from .candidates import UNKNOWN_PRICE, Candidate, order_price
from .min_values import has_min_values, short_of
from .model import NewMachine, PodSpec, Resources, Snapshot
from .nodes import Host
from .offers import Offers
from .resources import UNPRICED, cost, total

TOLERATED_PRICE = 1.15


class Claims:
    """Converts planned machines. Machines of one candidate with equal requirements and requests differ in pods only."""

    def __init__(self, snapshot: Snapshot, offers: Offers) -> None:
        self._snapshot = snapshot
        self._offers = offers
        self._known: dict[Hashable, tuple[NewMachine, str, Resources]] = {}
        self._prices: dict[str, dict[tuple[str, str, str], float]] = {}

    def of(self, host: Host, left: Mapping[str, int], room: Resources) -> tuple[NewMachine, str, Resources]:
        """The NodeClaim, the first label of which its types have fewer values than `minValues`, "" if none, and what
        more may count towards the limits of its NodePool than the candidate does.

        `left`: what the decision leaves of scarce quotas; the claim must not launch what other claims were counted on.
        `room`: what it leaves of the limits of the NodePool. Only where `minValues` need it a claim lists types of
        which more counts towards them than of the candidate.
        """
        if host.candidate is None:
            raise ValueError(f"{host.name} is an existing machine")
        tolerations = frozenset(spec.tolerations for spec, _ in host.present)
        refused = frozenset(one for spec, _ in host.present for one in spec.misfits.types)
        fixed = host.labelled.required_items, frozenset(host.requested.items())
        room = room if has_min_values(host.candidate.pool) else {}
        key = id(host.candidate), *fixed, tolerations, refused, frozenset(left.items()), frozenset(room.items())
        if key not in self._known:
            self._known[key] = self._made(host.candidate, host, refused, left, room)
        machine, label, more = self._known[key]
        return msgspec.structs.replace(machine, pods=tuple(sorted(host.pods))), label, more

    def _made(
        self,
        chosen: Candidate,
        host: Host,
        refused: Collection[tuple[str, str]],
        left: Mapping[str, int],
        room: Resources,
    ) -> tuple[NewMachine, str, Resources]:
        required = combine(chosen.pool.requirements, host.labelled.required)
        allowed = {*self._snapshot.well_known, *required}
        possible = [
            one
            for one in self._offers.picked(self._offers.of_pool(chosen.pool) & self._offers.roomy(host.requested))
            if is_regional(one.zone) is is_regional(chosen.zone)
            and (one.pool.name, one.type_name) not in refused
            and not conflict(one.requirements, required, allowed)
            and all(_tolerates(spec, chosen, one) for spec, _ in host.present)
            and all(more <= room.get(name, 0) for name, more in beyond(chosen, one).items())
            and all(one.quotas.get(name, 0) <= max(n, chosen.quotas.get(name, 0)) for name, n in left.items())
        ]
        alike = [one for one in possible if not beyond(chosen, one)]
        # Above the price that stands for an unknown one only the rest is an amount.
        unknown = UNKNOWN_PRICE if chosen.price >= UNKNOWN_PRICE else 0.0
        tolerated = 1.0 if labels.COST_PER_HOUR in chosen.pool.limits else TOLERATED_PRICE
        ceiling = unknown + (chosen.price - unknown) * tolerated + 1e-9
        cheap = self._within(chosen, [one for one in alike if one.price <= ceiling], ceiling)
        kept = _with_min_values(_with_min_values(cheap, alike, required), possible, required)
        dearer = self._dearer(chosen, kept)
        if any(amount > room.get(name, 0) for name, amount in dearer.items()):
            kept, dearer = cheap, {}
        kept.sort(key=lambda one: (one.price, one.type_name != chosen.type_name, one.type_name, one.zone))
        names = tuple(dict.fromkeys(one.type_name for one in kept))
        terms = one_of(one.capacity_type for one in kept)
        narrowed = combine(
            required, {labels.INSTANCE_TYPE: one_of(names), labels.CAPACITY_TYPE: terms}, _zones(kept, required)
        )
        machine = NewMachine(
            node_pool=chosen.pool.name,
            pods=(),
            instance_types=names,
            requirements=narrowed,
            requests=total((host.requested, chosen.daemon_requests)),
            price=chosen.price if chosen.priced else None,
            order_price=chosen.price,
            allocatable=total((chosen.allocatable, chosen.daemon_requests)),
            daemon_requests=chosen.daemon_requests,
        )
        offered = self._offers.picked(self._offers.of_pool(chosen.pool))
        more = Counter[str]()
        for one in kept:
            more |= Counter(beyond(chosen, one))
        more |= Counter(dearer)
        return machine, short_of(narrowed, (one for one in offered if one.type_name in names)), more

    def _within(self, chosen: Candidate, cheap: Iterable[Candidate], ceiling: float) -> list[Candidate]:
        """The offerings with which no combination of types, capacity types and zones is dearer than the ceiling."""
        prices = self._prices_of(chosen)
        types, zones, terms = {chosen.type_name}, {chosen.zone}, {chosen.capacity_type}
        kept = []
        for one in sorted(cheap, key=lambda one: (one.price, one is not chosen, one.type_name != chosen.type_name)):
            more = types | {one.type_name}, zones | {one.zone}, terms | {one.capacity_type}
            if all(prices.get(offering, 0.0) <= ceiling for offering in product(*more)):
                types, zones, terms = more
                kept.append(one)
        return kept

    def _dearer(self, chosen: Candidate, kept: Iterable[Candidate]) -> Resources:
        """What more the dearest combination of types, capacity types and zones costs, if the cost is limited."""
        if labels.COST_PER_HOUR not in chosen.pool.limits:
            return {}
        prices = self._prices_of(chosen)
        types, zones = {one.type_name for one in kept}, {one.zone for one in kept}
        listed = product(types, zones, {one.capacity_type for one in kept})
        most = max((prices.get(offering, 0.0) for offering in listed), default=0.0)
        more = (UNPRICED if most == inf else cost(most)) - chosen.capacity[labels.COST_PER_HOUR]
        return {labels.COST_PER_HOUR: more} if more > 0 else {}

    def _prices_of(self, chosen: Candidate) -> dict[tuple[str, str, str], float]:
        """The prices of all offerings, also of those that are not available now, by type, zone and capacity type.

        One that is not known is infinite where the cost is limited.
        """
        limited = labels.COST_PER_HOUR in chosen.pool.limits
        found = self._prices.get(chosen.pool.name)
        if found is None:
            types = self._snapshot.instance_types if chosen.pool.types is None else chosen.pool.types
            found = self._prices[chosen.pool.name] = {
                (kind.name, one.zone, one.capacity_type): inf if limited and one.price is None else order_price(one)
                for kind in types
                for one in kind.offerings
            }
        return found


def beyond(chosen: Candidate, other: Candidate) -> dict[str, int]:
    """What more counts towards the limits of a NodePool if another candidate is launched, in thousandths."""
    found = {name: other.capacity.get(name, 0) - chosen.capacity.get(name, 0) for name in chosen.pool.limits}
    return {name: more for name, more in found.items() if more > 0}


def _tolerates(spec: PodSpec, chosen: Candidate, other: Candidate) -> bool:
    """Whether a pod that fits one candidate tolerates the taints of another one of its NodePool."""
    return other.taints == chosen.taints or not untolerated(
        (taint for taint in other.taints if taint not in chosen.taints), spec.tolerations, ignore_preferred=True
    )


def _zones(kept: Iterable[Candidate], required: Requirements) -> Requirements:
    """The zones of the kept offerings; those outside all zones are named only where zones are required.

    A NodeClaim without a requirement on the zone is launched outside all zones, where Azure chooses the place.
    """
    zones = {one.zone for one in kept}
    if required.get(labels.ZONE, ANY).complement and any(is_regional(zone) for zone in zones):
        return {}
    return {labels.ZONE: one_of(zone for zone in zones if zone)}


def _with_min_values(kept: list[Candidate], alike: list[Candidate], required: Requirements) -> list[Candidate]:
    """Adds dearer types, cheapest first, until every `minValues` is met; candidates come in the order of prices."""
    if not any(wanted.min_values for wanted in required.values()):
        return kept
    extended = [*kept]
    for one in alike:
        if not short_of(required, extended):
            break
        if one not in extended:
            extended.append(one)
    return extended
