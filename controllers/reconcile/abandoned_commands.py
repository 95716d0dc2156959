"""Removes the marks of disruption commands that nobody completes or undoes any more. A key is the name of a NodeClaim.

The NodePool of the machine was deleted and left it (`--cascade=orphan`), or NodePools are disabled. The machine and its
replacement stay, and both take pods. Other NodeClaims are not looked at: only a command writes its ID.

Source: docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.commands_under_way import replaced_by
from controllers.disruption.marks import bears_marks, command_of, is_abandoned
from controllers.model.steps import Event
from controllers.state.indexes import UID
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock
from provisioner.runtime.reflector import Reflector

from .claim_creator import STALE_SECONDS
from .command_marks import CommandMarks
from .refused_marks import RefusedMarks

log = structlog.get_logger("disruption")


class AbandonedCommands:
    """`known_node_pools()`: all that exist; None while they are not known.

    `wake(name)` adds a NodeClaim to the queue.
    """

    name: ClassVar[Queue] = "abandoned-commands"

    def __init__(
        self,
        claims: Reflector[NodeClaim],
        nodes: Reflector[Node],
        node_pools: Reflector[NodePool],
        actuator: Actuator,
        *,
        known_node_pools: Callable[[], Sequence[NodePool] | None],
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._claims = claims
        self._nodes = nodes
        self._actuator = actuator
        self._node_pools = node_pools
        self._known_node_pools = known_node_pools
        self._wake = wake
        self._marks = CommandMarks(claims, nodes, actuator, clock)
        self._refusals = RefusedMarks(actuator.record_event)

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._claims.add_event_handler(self._claim_changed)
        self._node_pools.add_event_handler(self._pool_changed)

    def _claim_changed(self, _: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is not None and bears_marks(new):
            self._wake(new.name)

    def _pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        if new is None:
            for claim in self._claims.items():
                self._claim_changed(None, claim)

    async def reconcile(self, name: str) -> float | None:
        """Remove the marks of one NodeClaim; returns the seconds until the next pass, None: when something changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        claim = self._claims.get(name)
        if claim is None or claim.deleting or not bears_marks(claim):
            return None
        pools = self._known_node_pools()
        if pools is None or not (self._claims.synced and self._nodes.synced):
            return STALE_SECONDS
        if not is_abandoned(claim, pools):
            return None
        self._refusals.forget_others(self._claims.items())
        if (wait := self._refusals.delay([claim])) > 0:
            return wait
        # The cache can lack marks that were written since.
        fresh = await self._actuator.reads.claim(name)
        if fresh is None or fresh.deleting or not is_abandoned(fresh, pools):
            return None
        claim = fresh
        message = "The machine is kept: its NodePool no longer exists, or NodePools are disabled"
        event = Event(type="Warning", reason=reasons.REPLACEMENT_FAILED, message=message)
        left = 0.0
        if command_of(claim):
            left = await self._refusals.left(claim, self._marks.unmark(claim, (event,)))
        # A replacement of NodeClaims that have gone is an ordinary machine anyway.
        elif any(self._claims.by_index(UID, uid) for uid in replaced_by(claim)):
            left = await self._refusals.left(claim, self._marks.release(claim))
        if not left:
            log.warning("disruption undone", NodeClaims=[name], cause=message)
        return left or None
