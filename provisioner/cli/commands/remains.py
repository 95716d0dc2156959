"""What remains of the program in the cluster and in Azure, and what each object waits for, from one read.

NodeClaims of other controllers, their Nodes, and foreign agent pools are not listed.

Source: docs/references/rules.md#ownership-marks.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from cloudprovider.interface import Instance
from controllers.model.conditions import clock_text
from controllers.model.ownership import Verdict, belongs, held_by, holds_finalizer, managed, marked, verdict
from provisioner.api.conditions import DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import creator_of
from provisioner.runtime.objects import Lease, key_of

from .clients import State, Tools
from .confirmation import LeaseState
from .console import counted
from .controller_lease import Controller
from .demand_remains import Demand, Item, items_of, of_deleted_pool
from .removals import Removal, survey

NOUNS = {"AgentPool": "agent pool"}
LATEST_FIRST = (INSTANCE_TERMINATING, VOLUMES_DETACHED, DRAINED)
WITH_CLAIM = "removed with its NodeClaim"
KEPT_LEGACY = "legacy agent pool without a NodeClaim: --legacy-pools=report keeps it"
RESTRICTED = "the circuit breaker: gpu-provisioner gc --confirm"


class Inferred(NamedTuple):
    """A removal by garbage collection; `restricted`: the circuit breaker does not let it pass."""

    removal: Removal
    restricted: bool


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """`live`, `live_pools` and `live_classes`: those without a deletion request. `items` contains no Leases."""

    live: tuple[NodeClaim, ...]
    live_pools: tuple[NodePool, ...]
    live_classes: tuple[AgentPoolNodeClass, ...]
    items: tuple[Item, ...]

    def __str__(self) -> str:
        """`1 NodeClaim, 1 Node, 2 finalizers, 1 agent pool`; NodePools and node classes precede if there are any."""
        demand = [self._counted(kind) for kind in ("NodePool", "AgentPoolNodeClass") if self.number(kind)]
        finalizers = counted(sum(item.finalizer for item in self.items), "finalizer")
        counts = (self._counted("NodeClaim"), self._counted("Node"), finalizers, self._counted("AgentPool"))
        return ", ".join((*demand, *counts))

    def _counted(self, kind: str) -> str:
        return counted(self.number(kind), NOUNS.get(kind, kind))

    @property
    def to_delete(self) -> str:
        """The objects that the command deletes, as text; "" if there are none."""
        found = {"NodePool": self.live_pools, "NodeClaim": self.live, "AgentPoolNodeClass": self.live_classes}
        return ", ".join(counted(len(objects), NOUNS.get(kind, kind)) for kind, objects in found.items() if objects)

    def number(self, kind: str) -> int:
        """How many objects of this kind remain."""
        return sum(item.kind == kind for item in self.items)

    def owners(self) -> tuple[str, ...]:
        """The owners of NodeClaims that the command does not delete, sorted."""
        pools = {f"NodePool {item.name}" for item in self.items if item.kind == "NodePool"}
        return tuple(sorted({item.owner for item in self.items if item.owner} - pools))


def remains(
    state: State, demand: Demand, tools: Tools, lease: LeaseState, *, deleted: Collection[str] | None = None
) -> Remains:
    """Everything that this program manages. `deleted`: the UIDs of the objects that the command deleted, if any."""
    claims = [claim for claim in state.indexes.claims() if managed(claim)]
    others = frozenset(claim.uid for claim in state.indexes.claims() if not managed(claim))
    found = survey(state, tools, lease)
    confirmed = lease.confirmation.removals if lease.confirmation is not None else ()
    inferred = {
        removal.pool: Inferred(removal, restricted=found.restricted and removal.pool not in confirmed)
        for removal in found.removals
    }
    by_key: dict[str, list[NodeClaim]] = {}
    for claim in claims:
        by_key.setdefault(state.indexes.key_of(claim), []).append(claim)
    pool_of = state.indexes.pool_of
    nodes = [node for node in state.nodes if pool_of(node) and _is_ours(node, others)]
    pools = [pool for pool in state.inventory.items() if not pool.foreign]
    of_claims = [_claim(claim, deleted) for claim in sorted(claims, key=lambda claim: claim.name)]
    of_demand = items_of(
        demand,
        claims,
        blocked_claims={item.name for item in of_claims if item.blocked},
        deleted=deleted,
        enabled=tools.config.node_pools,
    )
    return Remains(
        live=tuple(claim for claim in claims if not claim.deleting),
        live_pools=tuple(one for one in demand.node_pools if not one.metadata.deleting),
        live_classes=tuple(one for one in demand.node_classes if not one.metadata.deleting),
        items=(
            *of_demand,
            *of_claims,
            *(_node(node, pool_of(node), by_key, inferred) for node in sorted(nodes, key=lambda node: node.name)),
            *(_pool(pool, by_key, inferred, tools) for pool in sorted(pools, key=lambda pool: pool.name)),
        ),
    )


def lease_items(leases: Sequence[Lease], controller: Controller) -> tuple[Item, ...]:
    """The Leases of the controller."""
    return tuple(
        Item(
            kind="Lease",
            name=key_of(lease),
            action="deleted once no controller runs",
            waits_for=_lease_waits_for(lease, controller),
            blocked=controller is Controller.RUNNING,
        )
        for lease in leases
    )


def _lease_waits_for(lease: Lease, controller: Controller) -> str:
    if controller is Controller.RUNNING:
        return f"the controller {lease.spec.holder_identity} is running: helm uninstall"
    return "the proof that no controller runs"


def _is_ours(node: Node, others: frozenset[str]) -> bool:
    """Whether this machine was created for a NodeClaim of ours; `others` are the UIDs of other NodeClaims."""
    owners = {owner.uid for owner in node.metadata.owner_references}
    return marked(node) and not owners & others


def _claim(claim: NodeClaim, deleted: Collection[str] | None) -> Item:
    waits_for, blocked = "its deletion", False
    if claim.deleting:
        waits_for = _termination(claim)
    elif pool := of_deleted_pool(claim, deleted):
        waits_for = f"the garbage collector of Kubernetes: its NodePool {pool} is deleted"
    elif deleted is not None and claim.uid not in deleted:
        created = clock_text(claim.metadata.creation_timestamp)
        waits_for, blocked = f"the deletion of its owner, which created it at {created}", True
    deleting = claim.metadata.deletion_timestamp
    return Item(
        kind="NodeClaim",
        name=claim.name,
        owner=creator_of(claim),
        action=f"deletion requested at {clock_text(deleting)}" if deleting is not None else "delete",
        waits_for=waits_for,
        blocked=blocked,
        finalizer=holds_finalizer(claim),
    )


def _termination(claim: NodeClaim) -> str:
    """What the deletion of this NodeClaim waits for, by its conditions and finalizers."""
    if not holds_finalizer(claim):
        return f"finalizers of other controllers: {', '.join(claim.metadata.finalizers) or 'none'}"
    by_type = {condition.type: condition for condition in claim.status.conditions}
    for kind in LATEST_FIRST:
        if (condition := by_type.get(kind)) is not None and (
            condition.status != "True" or kind == INSTANCE_TERMINATING
        ):
            return condition.message or condition.reason
    return "the controller"


def _node(node: Node, key: str, by_key: Mapping[str, Sequence[NodeClaim]], inferred: Mapping[str, Inferred]) -> Item:
    claim = next((claim for claim in by_key.get(key, ()) if belongs(node, claim)), None)
    action, waits_for, blocked = _how(claim, inferred.get(key), default="the controller of AKS")
    return Item(
        kind="Node",
        name=node.name,
        claim=claim.name if claim is not None else "",
        action=action,
        waits_for=waits_for,
        blocked=blocked,
        finalizer=holds_finalizer(node),
    )


def _pool(
    pool: Instance,
    by_key: Mapping[str, Sequence[NodeClaim]],
    inferred: Mapping[str, Inferred],
    tools: Tools,
) -> Item:
    claim = next((claim for claim in by_key.get(pool.name, ()) if held_by(pool, claim)), None)
    action, waits_for, blocked = _how(claim, inferred.get(pool.name), default="the controller")
    kept = tools.config.policy.legacy_pools == "report" and verdict(pool, claim) is Verdict.ORPHANED_LEGACY
    if kept:
        action = waits_for = KEPT_LEGACY
    return Item(
        kind="AgentPool",
        name=pool.name,
        claim=claim.name if claim is not None else "",
        action=action,
        waits_for=waits_for,
        blocked=blocked or kept,
    )


def _how(claim: NodeClaim | None, inferred: Inferred | None, *, default: str) -> tuple[str, str, bool]:
    """How a Node or an agent pool is removed, what it waits for, and whether it is blocked."""
    if claim is not None:
        return WITH_CLAIM, f"NodeClaim {claim.name}", False
    if inferred is None:
        return f"removed by {default}", default, False
    action = f"garbage collection: {inferred.removal.action}"
    if inferred.restricted:
        return action, RESTRICTED, True
    return action, inferred.removal.waits_for or "garbage collection", False
