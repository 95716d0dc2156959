"""The counter of a NodePool: its machines and their resources, of NodeClaims with and without a Node."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.quantity import parse_quantity

ALWAYS = ("cpu", "ephemeral-storage", "memory", "nodes", "pods")
KIBI = 1024


def usage(machines: Iterable[tuple[NodeClaim, Node | None]]) -> dict[str, str]:
    """`status.resources`, by name."""
    return {resource: written(resource, amount) for resource, amount in sorted(used(machines).items())}


def used(machines: Iterable[tuple[NodeClaim, Node | None]]) -> dict[str, Decimal]:
    """The sums of the capacities. A claim without a Node counts by its estimate."""
    sums: dict[str, Decimal] = dict.fromkeys(ALWAYS, Decimal(0))
    for claim, node in machines:
        sums["nodes"] += 1
        for resource, amount in _capacity(claim, node).items():
            try:
                sums[resource] = sums.get(resource, Decimal(0)) + parse_quantity(amount)
            except ValueError:
                continue
    return sums


def written(resource: str, amount: Decimal) -> str:
    """The amount in the notation of Kubernetes."""
    if resource in ("memory", "ephemeral-storage") and amount and amount % KIBI == 0:
        return f"{int(amount) // KIBI}Ki"
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"


def _capacity(claim: NodeClaim, node: Node | None) -> Mapping[str, str | int | float]:
    """That of the Node; resources that it does not have yet are those of the claim's estimate."""
    shown = {} if node is None else {name: amount for name, amount in node.status.capacity.items() if amount != "0"}
    return {**claim.status.capacity, **shown}
