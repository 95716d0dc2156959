"""The output of `uninstall`: what remains, as a table or for programs."""

from dataclasses import dataclass

import msgspec

from provisioner.cli.output import encoded
from provisioner.runtime.objects import Lease

from .console import counted, table
from .controller_lease import Controller
from .demand_remains import Item
from .remains import Remains, lease_items

HEAD = ("KIND", "NAME", "CLAIM", "OWNER")


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The output of `-o json`."""

    node_pools: int
    node_classes: int
    node_claims: int
    nodes: int
    finalizers: int
    agent_pools: int
    leases: int
    controller: Controller
    remaining: tuple[Item, ...]


@dataclass(frozen=True)
class Report:
    """What one read showed."""

    left: Remains
    leases: tuple[Lease, ...]
    controller: Controller

    @property
    def summary(self) -> str:
        """The numbers of all objects, Leases included."""
        return f"{self.left}, {counted(len(self.leases), 'Lease')}"

    def lines(self, *, planned: bool = False) -> list[str]:
        """A table of what remains: with the way of its removal if it is `planned`, else with what it waits for."""
        items = self._items()
        if not items:
            return [f"Nothing remains: {self.summary}"]
        rows = [
            (item.kind, item.name, item.claim, item.owner, item.action if planned else item.waits_for) for item in items
        ]
        return [*table((*HEAD, "ACTION" if planned else "WAITS FOR"), rows), "", self.summary]

    def encoded(self, output: str) -> str:
        """A `Result` in this format."""
        items = self._items()
        result = Result(
            node_pools=self.left.number("NodePool"),
            node_classes=self.left.number("AgentPoolNodeClass"),
            node_claims=self.left.number("NodeClaim"),
            nodes=self.left.number("Node"),
            finalizers=sum(item.finalizer for item in items),
            agent_pools=self.left.number("AgentPool"),
            leases=len(self.leases),
            controller=self.controller,
            remaining=items,
        )
        return encoded(result, output)

    def _items(self) -> tuple[Item, ...]:
        return (*self.left.items, *lease_items(self.leases, self.controller))
