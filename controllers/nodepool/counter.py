"""The counter of a NodePool: its machines and their resources, of NodeClaims with and without a Node; and its limits.

Amounts are rounded up to thousandths, so that sums of any number of machines are exact.

Source: docs/references/karpenter.md#nodepool.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal

from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.quantity import parse_quantity

ALWAYS = ("cpu", "ephemeral-storage", "memory", "nodes", "pods")
KIBI = 1024
THOUSANDTH = Decimal("0.001")


class Usage:
    """The sums of the capacities of machines, kept as these change. A claim without a Node counts by its estimate."""

    def __init__(self, machines: Iterable[tuple[NodeClaim, Node | None]] = ()) -> None:
        self._machines: dict[str, Mapping[str, Decimal]] = {}
        self._sums: dict[str, Decimal] = dict.fromkeys(ALWAYS, Decimal(0))
        # How many machines have a resource: it is not listed once none has it.
        self._users = Counter[str](ALWAYS)
        for claim, node in machines:
            self.count(claim, node)

    def __len__(self) -> int:
        return len(self._machines)

    def count(self, claim: NodeClaim, node: Node | None) -> None:
        """The machine is there, or has changed."""
        self.forget(claim.name)
        self._machines[claim.name] = amounts = _amounts(claim, node)
        self._users.update(amounts.keys())
        self._sums |= {resource: self._sums.get(resource, 0) + amount for resource, amount in amounts.items()}

    def forget(self, name: str) -> None:
        """The claim of this name is gone."""
        for resource, amount in self._machines.pop(name, {}).items():
            self._sums[resource] -= amount
            self._users[resource] -= 1
            if not self._users[resource]:
                del self._sums[resource]

    def resources(self) -> dict[str, str]:
        """As in `status.resources`."""
        return {resource: written(resource, amount) for resource, amount in sorted(self._sums.items())}

    def with_another(self, claim: NodeClaim) -> dict[str, Decimal]:
        """The sums after another machine, without a Node, has taken the place of the one of this claim."""
        sums, old = dict(self._sums), self._machines.get(claim.name, {})
        for amounts, sign in ((old, -1), (_amounts(claim, None), 1)):
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, Decimal(0)) + sign * amount
        return sums


def _amounts(claim: NodeClaim, node: Node | None) -> dict[str, Decimal]:
    """Those of the Node; resources that it does not have yet are those of the claim's estimate."""
    shown = {} if node is None else {name: amount for name, amount in node.status.capacity.items() if amount != "0"}
    found = {"nodes": Decimal(1)}
    for resource, amount in {**claim.status.capacity, **shown}.items():
        try:
            rounded = parse_quantity(amount).quantize(THOUSANDTH, ROUND_CEILING)
        except ValueError:
            continue
        found[resource] = found.get(resource, Decimal(0)) + rounded
    return found


def written(resource: str, amount: Decimal) -> str:
    """The amount in the notation of Kubernetes."""
    if resource in ("memory", "ephemeral-storage") and amount and amount % KIBI == 0:
        return f"{int(amount) // KIBI}Ki"
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"


def exceeded_limit(pool: NodePool, claim: NodeClaim, usage: Usage) -> str:
    """The first limit that another machine in the place of this one exceeds, with both amounts; "" if none is.

    The machine counts out first: a limit that is just used up is free again then, one that was lowered is not.
    `usage`: of all machines of the NodePool. The other one counts by the estimate that this one was created with. A
    limit that cannot be read is a condition of the NodePool.
    """
    after = usage.with_another(claim)
    for resource, limit in sorted(pool.spec.limits.items()):
        needed = after.get(resource, Decimal(0))
        try:
            exceeded = needed > parse_quantity(limit)
        except ValueError:
            continue
        if exceeded:
            return f"limit {resource}: {limit}, needed {written(resource, needed)}"
    return ""
