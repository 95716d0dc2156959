"""The instance types that a new machine could have had instead, and why it has none of them.

An alternative has each extended resource that the pods of the machine request, such as GPUs, even if too little of it.
Named are the two cheapest that would do, and of those that cost less and will not do the dearest.
"""

from collections.abc import Iterable, Iterator

import msgspec

from cloudprovider.cloud import InstanceType
from controllers.provisioning.price_messages import usd_per_hour
from controllers.provisioning.solver.model import NewMachine, NodePool, Snapshot
from controllers.provisioning.solver.reasons import quantity
from provisioner.api import labels
from provisioner.api.requirements import Requirements, excludes
from provisioner.api.value_sets import ANY

MOST = 3
# Of a type that is cheaper, and which nothing above excludes.
OTHER = "other pods of the decision, or their order, do not allow it"
# Requirements that follow from the choice of the type.
CHOSEN = frozenset({labels.INSTANCE_TYPE, labels.ZONE})


class Alternative(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`price`: USD an hour, with the cheapest capacity type and zone that the machine allows."""

    instance_type: str
    price: float
    why: str


def alternatives(machine: NewMachine, found: Snapshot) -> tuple[Alternative, ...]:
    """At most three, cheapest first; none if the price of the machine is not known."""
    pool = next(one for one in found.node_pools if one.name == machine.node_pool)
    price = machine.price
    if price is None:
        return ()
    types = pool.types if pool.types is not None else found.instance_types
    others = sorted(_others(machine, pool, types), key=lambda found: found[0])
    usable = [
        Alternative(instance_type=name, price=cost, why=_dearer(cost - price)) for cost, name, why in others if not why
    ]
    refused = [
        Alternative(instance_type=name, price=cost, why=why)
        for cost, name, why in reversed(others)
        if why and cost < price
    ]
    named = [*usable[:2], *refused[:1], *usable[2:], *refused[1:]][:MOST]
    return tuple(sorted(named, key=lambda one: one.price))


def _others(machine: NewMachine, pool: NodePool, types: Iterable[InstanceType]) -> Iterator[tuple[float, str, str]]:
    """Price, name and why not, "" if it would do, of each other type."""
    wanted = {key: allowed for key, allowed in machine.requirements.items() if key not in CHOSEN}
    extended = [name for name in machine.requests if "/" in name]
    for kind in types:
        if kind.name == machine.instance_types[0] or not all(kind.allocatable.get(name) for name in extended):
            continue
        price, elsewhere = _price(machine, pool, kind)
        if price is not None:
            why = _why(machine, pool, wanted, kind) or elsewhere
            cheaper = machine.price is not None and price < machine.price
            yield price, kind.name, why or (OTHER if cheaper else "")


def _price(machine: NewMachine, pool: NodePool, kind: InstanceType) -> tuple[float | None, str]:
    """The least price, and why the machine cannot have it, "" if it can; None if no price is known."""
    terms, zones = machine.requirements[labels.CAPACITY_TYPE], machine.requirements.get(labels.ZONE, ANY)
    offered = [one for one in kind.offerings if one.price is not None and terms.allows(one.capacity_type)]
    of_pool = [one for one in offered if pool.requirements.get(labels.ZONE, ANY).allows(one.zone)]
    here = [one for one in of_pool if zones.allows(one.zone)]
    now = [one for one in here if one.available]
    why = ""
    if not of_pool:
        why = f"NodePool {pool.name} does not allow it: {labels.ZONE}"
    elif not here:
        why = "it is not offered in the zones of the machine"
    elif not now:
        why = here[0].cause
    return min((one.price for one in now or here or of_pool or offered if one.price is not None), default=None), why


def _why(machine: NewMachine, pool: NodePool, wanted: Requirements, kind: InstanceType) -> str:
    """Why this type cannot be chosen, "" if it can."""
    if kind.name in machine.instance_types:
        return ""
    for name, amount in machine.requests.items():
        if kind.allocatable.get(name, 0) < amount:
            has = quantity(name, kind.allocatable.get(name, 0))
            return f"it has {name} {has} of {quantity(name, amount)} requested"
    if key := excludes(pool.requirements, kind.requirements):
        return f"NodePool {pool.name} does not allow it: {key}"
    if key := excludes(wanted, kind.requirements):
        return f"its pods do not allow it: {key}"
    for name, limit in pool.limits.items():
        if pool.used.get(name, 0) + kind.capacity.get(name, 0) > limit:
            return f"it exceeds spec.limits of NodePool {pool.name}: {name}"
    return ""


def _dearer(more: float) -> str:
    return f"{usd_per_hour(more)} more" if more > 0 else "as expensive, and later in the order of types"
