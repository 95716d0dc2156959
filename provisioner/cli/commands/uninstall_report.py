"""The output of `uninstall`: what would be deleted, or what remains, as a table or for programs."""

from dataclasses import dataclass

import msgspec

from provisioner.cli.output import encoded
from provisioner.runtime.objects import Lease

from .console import counted, table
from .controller_lease import Controller
from .demand_remains import Item
from .remains import Remains, lease_items
from .uninstall_effects import Effects, PodItem

HEAD = ("KIND", "NAME", "CLAIM", "OWNER")


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The output of `-o json`. `pods` and `node_overlays`: before the deletion, if they are known."""

    cluster: str

    node_pools: int
    node_classes: int
    node_claims: int
    nodes: int
    finalizers: int
    agent_pools: int
    leases: int
    controller: Controller
    remaining: tuple[Item, ...]
    pods: tuple[PodItem, ...] | None = None
    node_overlays: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Report:
    """What one read showed. `cluster`: its name. `effects`: of what would be deleted; None after the deletion."""

    left: Remains
    leases: tuple[Lease, ...]
    controller: Controller
    cluster: str
    effects: Effects | None = None

    @property
    def summary(self) -> str:
        """The numbers of all objects, Leases included."""
        return f"{self.left}, {counted(len(self.leases), 'Lease')}"

    def lines(self) -> list[str]:
        """A table of what would be deleted, with the way of its removal, or of what remains and what it waits for."""
        items, planned = self._items(), self.effects
        if not items:
            return [f"Nothing remains: {self.summary}", *(planned.lines() if planned is not None else ())]
        rows = [
            (item.kind, item.name, item.claim, item.owner, item.waits_for if planned is None else item.action)
            for item in items
        ]
        if planned is None:
            return [*table((*HEAD, "WAITS FOR"), rows), "", self.summary]
        head = f"In {self.cluster}:"
        return [head, "", *table((*HEAD, "ACTION"), rows), "", *planned.lines(), f"{self.summary}, {planned}"]

    def encoded(self, output: str) -> str:
        """A `Result` in this format."""
        items = self._items()
        result = Result(
            cluster=self.cluster,
            node_pools=self.left.number("NodePool"),
            node_classes=self.left.number("AgentPoolNodeClass"),
            node_claims=self.left.number("NodeClaim"),
            nodes=self.left.number("Node"),
            finalizers=sum(item.finalizer for item in items),
            agent_pools=self.left.number("AgentPool"),
            leases=len(self.leases),
            controller=self.controller,
            remaining=items,
            pods=self.effects.pods if self.effects is not None else None,
            node_overlays=self.effects.node_overlays if self.effects is not None else None,
        )
        return encoded(result, output)

    def _items(self) -> tuple[Item, ...]:
        return (*self.left.items, *lease_items(self.leases, self.controller))
