"""What the machines of a NodePool cost, as its limit on the cost counts them.

A machine has the price of its offering. While that is not decided it counts as the dearest one that its NodeClaim
allows, so that no launch exceeds the limit.

Source: docs/how-to/prices.md#a-limit-in-money.
"""

from collections.abc import Iterable

from cloudprovider.interface import ON_DEMAND
from controllers.nodepool.cost_limit import Cost, affordable, limit
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import counted_in
from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import ANY, one_of

from .instances import InstanceTypes
from .nodepools import requirements
from .solver.resources import cost


def price_of(claim: NodeClaim, node: Node | None, types: InstanceTypes) -> float | None:
    """The highest price that the machine has or may get, USD an hour; None if it is not known."""
    known = {**claim.metadata.labels, **(node.metadata.labels if node is not None else {})}
    size, capacity_type = known.get(labels.INSTANCE_TYPE, ""), known.get(labels.CAPACITY_TYPE, "")
    if size and capacity_type:
        return types.price(
            counted_in(claim), types.cloud.canonical_name(size), capacity_type, known.get(labels.ZONE, "")
        )
    try:
        return dearest(counted_in(claim), requirements(claim.spec.requirements, types.cloud), types)
    except ValueError:
        return None


def dearest(node_pool: str, allowed: Requirements, types: InstanceTypes) -> float | None:
    """The highest price of the offerings that a NodeClaim with these requirements may launch; None: one is not known.

    Without a requirement on the capacity type it is on demand.
    """
    sizes, zones = allowed.get(labels.INSTANCE_TYPE, ANY), allowed.get(labels.ZONE, ANY)
    terms = allowed.get(labels.CAPACITY_TYPE, one_of((ON_DEMAND,)))
    prices = [
        one.price
        for kind in types.of_pool(node_pool)
        if sizes.allows(kind.name)
        for one in kind.offerings
        if terms.allows(one.capacity_type) and zones.allows(one.zone)
    ]
    found = [one for one in prices if one is not None]
    return max(found) if found and len(found) == len(prices) else None


def cost_of(machines: Iterable[tuple[NodeClaim, Node | None]], types: InstanceTypes) -> Cost:
    """What these machines cost together; each price is rounded up to a thousandth."""
    prices = [(claim.name, price_of(claim, node, types)) for claim, node in machines]
    unpriced = tuple(sorted(name for name, price in prices if price is None))
    return Cost(thousandths=sum(cost(price) for _, price in prices if price is not None), unpriced=unpriced)


def room_for(
    pool: NodePool,
    machines: Iterable[tuple[NodeClaim, Node | None]],
    allowed: Requirements,
    types: InstanceTypes,
    *,
    coming: int = 0,
) -> tuple[int | None, str]:
    """How many more machines with these requirements the limit allows, None for any number; and why not more.

    `machines`: all of the NodePool, which are looked at only if it has a limit. `coming`: further ones that are not
    among them yet.
    """
    if limit(pool) is None:
        return None, ""
    price = dearest(pool.name, allowed, types)
    return affordable(pool, cost_of(machines, types), None if price is None else cost(price), coming=coming)
