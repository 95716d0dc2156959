"""Writes and removes the marks of disruption commands: annotation, condition, and taint of the Node.

The annotation of the NodeClaim is written first and removed last, so that a command is found after a crash at any
write. A write that conflicts with another one is repeated at once with a fresh object, if the command still fits it.
What another controller of this process has written meanwhile is in the cache, so that a write does not conflict with
it.

Source: docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Callable, Mapping, Sequence

from controllers.actuator.actuator import Actuator
from controllers.disruption.machine import Machine
from controllers.disruption.marks import (
    command_of,
    mark_node,
    new_id,
    unmark_node,
    why_outdated,
    why_unmarked,
    why_without_id,
)
from controllers.model.patches import Operation
from controllers.model.results import Wrote
from controllers.model.steps import Event, PatchClaim, PatchNode, PatchStatus, Write
from provisioner.api import labels
from provisioner.api.causes import Reason
from provisioner.api.conditions import DISRUPTION_REASON, ConditionSet
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube import KubeError
from provisioner.runtime.own_writes import reached
from provisioner.runtime.reflector import Reflector

# An object that changes between each read and its write.
TRIES = 5
OF_REPLACEMENT = (labels.REPLACEMENT_COMMAND, labels.REPLACES, labels.REPLACEMENTS)


class NotWritten(Exception):
    """A mark was not written or removed, because the object is gone or the command does not fit it any more.

    `refused`: the API server does not allow the write, and why.
    """

    def __init__(self, why: str = "", *, refused: str = "") -> None:
        super().__init__(refused or why)
        self.refused = refused


class CommandMarks:
    """All methods raise NotWritten, and KubeError for a request that can succeed when it is repeated."""

    def __init__(self, claims: Reflector[NodeClaim], nodes: Reflector[Node], actuator: Actuator, clock: Clock) -> None:
        self._claims = claims
        self._nodes = nodes
        self._actuator = actuator
        self._clock = clock

    async def mark(self, machine: Machine, command: str, reason: Reason) -> str:
        """Mark the machine as disrupted by the command; returns its ID, a new one if `command` is ""."""
        decided, now = machine.claim, self._clock.now()

        def fits(fresh: NodeClaim) -> str:
            return why_outdated(fresh, decided, command, reason)

        def annotated(fresh: NodeClaim) -> Write:
            return PatchClaim(claim=fresh, annotations={labels.DISRUPTION_COMMAND: command or new_id(fresh)})

        def stated(fresh: NodeClaim) -> Write:
            kept = ConditionSet.of(fresh, now).set(DISRUPTION_REASON, "True", reason=reason, message=reason, now=now)
            return PatchStatus(claim=fresh, conditions=kept.items, fields={})

        def still_has_id(fresh: NodeClaim) -> str:
            return fits(fresh) or why_without_id(fresh, command)

        if why := fits(decided):
            raise NotWritten(why)
        claim = await self._write_claim(decided, annotated, fits)
        command = command_of(claim)
        if not command:
            raise NotWritten(refused=f"the API server drops the annotation {labels.DISRUPTION_COMMAND}")
        await self._write_claim(claim, stated, still_has_id)
        if machine.node is not None:
            await self._patch(
                machine.node, lambda node: mark_node(node, command, now), "taint a Node that is being replaced"
            )
        return command

    async def confirm(self, machine: Machine, command: str, reason: Reason) -> None:
        """Read the NodeClaim after its last mark; raise NotWritten if it has lost a mark, or must be kept."""
        decided = machine.claim
        fresh = await self._actuator.reads.claim(decided.name)
        if fresh is None:
            raise NotWritten(f"NodeClaim {decided.name} was deleted")
        if why := why_outdated(fresh, decided, command, reason) or why_unmarked(fresh, command):
            raise NotWritten(why)

    async def unmark(self, claim: NodeClaim, events: tuple[Event, ...] = ()) -> None:
        """Remove the taint, the condition, then the annotation of the NodeClaim. `claim`: read just now."""
        command, now = command_of(claim), self._clock.now()
        for node in await self._of(claim):
            await self._patch(node, lambda node: unmark_node(node, command), "the Node is not replaced after all")

        def fits(fresh: NodeClaim) -> str:
            return "" if fresh.uid == claim.uid and command_of(fresh) == command else "the command has no marks left"

        def stated(fresh: NodeClaim) -> Write:
            kept = ConditionSet.of(fresh, now).clear(DISRUPTION_REASON)
            return PatchStatus(claim=fresh, conditions=kept.items, fields={}, events=events)

        def cleared(fresh: NodeClaim) -> str:
            return fits(fresh) or ("" if fresh.condition(DISRUPTION_REASON) is None else "the command goes on")

        if claim.condition(DISRUPTION_REASON) is not None:
            claim = await self._write_claim(claim, stated, fits)
        if command:
            await self._write_claim(claim, _without((labels.DISRUPTION_COMMAND,)), cleared)

    async def release(self, claim: NodeClaim) -> None:
        """The NodeClaim replaces no other any more: it is an ordinary one."""
        command = claim.metadata.annotations.get(labels.REPLACEMENT_COMMAND)

        def fits(fresh: NodeClaim) -> str:
            same = fresh.metadata.annotations.get(labels.REPLACEMENT_COMMAND) == command
            return "" if fresh.uid == claim.uid and same else "it is no replacement any more"

        await self._write_claim(claim, _without(OF_REPLACEMENT), fits)

    async def _write_claim(
        self, claim: NodeClaim, step: Callable[[NodeClaim], Write], why_not: Callable[[NodeClaim], str]
    ) -> NodeClaim:
        """The NodeClaim after the write. `why_not(fresh)`: why a fresh one is not written to, "" if it is."""
        cached = self._claims.get(claim.name)
        if cached is not None and cached.uid == claim.uid and _is_newer(cached, claim):
            if why := why_not(cached):
                raise NotWritten(why)
            claim = cached
        for _ in range(TRIES):
            try:
                written = await self._actuator.write(step(claim), None)
            except KubeError as error:
                if error.not_found:
                    raise NotWritten(f"NodeClaim {claim.name} was deleted") from None
                if not error.conflict:
                    raise _failure(error, f"NodeClaim {claim.name}") from None
            else:
                return (written.claim if isinstance(written, Wrote) else None) or claim
            fresh = await self._actuator.reads.claim(claim.name)
            if why := f"NodeClaim {claim.name} was deleted" if fresh is None else why_not(fresh):
                raise NotWritten(why)
            claim = fresh or claim
        raise NotWritten(refused=f"NodeClaim {claim.name} changes all the time")

    async def _patch(self, node: Node, patch: Callable[[Node], Sequence[Operation]], why: str) -> None:
        for _ in range(TRIES):
            if not (operations := tuple(patch(node))):
                return
            try:
                await self._actuator.write(PatchNode(node=node, patch=operations, why=why), None)
            except KubeError as error:
                if error.not_found:
                    return
                if not (error.conflict or error.refused):
                    raise
                fresh = await self._fresh(node)
                if fresh is None:
                    return
                # A patch whose `test` fails is refused like one that a policy does not allow.
                if error.refused and tuple(patch(fresh)) == operations:
                    raise _failure(error, f"Node {node.name}") from None
                node = fresh
            else:
                return
        raise NotWritten(refused=f"Node {node.name} changes all the time")

    async def _of(self, claim: NodeClaim) -> Sequence[Node]:
        """The claim's Node as it is now: the cache may lack a taint that was just added."""
        cached = self._nodes.get(claim.status.node_name)
        fresh = await self._fresh(cached) if cached is not None else None
        return () if fresh is None else (fresh,)

    async def _fresh(self, node: Node) -> Node | None:
        pool = node.metadata.labels.get(self._actuator.reads.instance_label, "")
        if not pool:
            return node  # it cannot be listed by the label
        nodes = await self._actuator.reads.nodes(pool)
        return next((one for one in nodes if one.metadata.uid == node.metadata.uid), None)


def _is_newer(cached: NodeClaim, read: NodeClaim) -> bool:
    seen, version = cached.metadata.resource_version, read.metadata.resource_version
    return seen != version and reached(seen, version)


def _without(keys: Sequence[str]) -> Callable[[NodeClaim], Write]:
    removed: Mapping[str, None] = dict.fromkeys(keys)
    return lambda fresh: PatchClaim(claim=fresh, annotations=removed)


def _failure(error: KubeError, about: str) -> Exception:
    """`error` itself if the request can succeed when it is repeated."""
    return NotWritten(refused=f"the API server refuses a change of {about}: {error}") if error.refused else error
