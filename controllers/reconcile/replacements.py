"""Carries out disruption commands: replacements first, then the deletion of the old NodeClaims, or the way back.

Everything that a command has done is in the objects: the condition DisruptionReason is written before the taint and the
replacements, and is cleared last when a command is undone, so that a crash at any write is followed by one or the other
(`controllers.disruption.queue`).

Source: docs/references/karpenter.md#disruption-queue.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.command import Command
from controllers.disruption.machine import Machine
from controllers.disruption.queue import Await, Delete, Replacement, Step, Undo, annotations, next_step, under_way
from controllers.model.results import Fenced, KubeFailed, ReadClaims, ReadNodes, answer
from controllers.model.steps import (
    Cause,
    DeleteClaim,
    Event,
    LookUpClaims,
    LookUpNodes,
    PatchNode,
    PatchStatus,
    Write,
)
from controllers.node.termination.cordon import taint, untaint
from controllers.provisioning.nominations import Nominations
from provisioner.api import labels, reasons
from provisioner.api.conditions import DISRUPTION_REASON, ConditionSet
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock

from .claim_creator import FENCED_SECONDS, STALE_SECONDS, ClaimCreator
from .claim_deletion import Deletion, delete_claim
from .disruption_events import DisruptionEvents
from .disruption_observer import DisruptionObserver
from .machines import Machines
from .provisioner import DemandCaches
from .removals import Removals

log = structlog.get_logger("disruption")


class Replacements:
    """`ended(command, why)`: a command is complete, or was undone with this cause.

    `limit_seconds`: how long a replacement may take from its creation until it is Initialized.
    """

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        creator: ClaimCreator,
        *,
        machines: Machines,
        nominations: Nominations,
        removals: Removals,
        observer: DisruptionObserver,
        events: DisruptionEvents,
        ended: Callable[[Replacement, str], None],
        limit_seconds: float,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._creator = creator
        self._machines = machines
        self._nominations = nominations
        self._removals = removals
        self._observer = observer
        self._events = events
        self._ended = ended
        self._limit_seconds = limit_seconds
        self._clock = clock

    async def begin(self, command: Command, well_known: frozenset[str]) -> float | None:
        """Carry out a command that was decided in this step of the event loop; seconds to wait if that failed.

        Raises KubeError for a request that can succeed when it is repeated; what was written is then undone.
        """
        claims = [machine.claim for machine in command.machines]
        self._machines.leaving.reserve(claims)
        try:
            done = await (self._replace(command, well_known) if command.replacements else self._remove(command))
        except BaseException:
            self._machines.leaving.failed(claims)
            raise
        if done is not None:
            self._machines.leaving.release(claims)
        return done

    async def advance(self, claims: Iterable[NodeClaim]) -> float | None:
        """The next step of each command under way. Returns the seconds until the next one, None without a command."""
        steps = [next_step(one, self._clock.now(), self._limit_seconds) for one in under_way(claims)]
        waits = [seconds for step in steps if (seconds := await self._advance(step)) is not None]
        return min(waits, default=None)

    async def _advance(self, step: Step) -> float | None:
        match step:
            case Await(missing=missing, seconds=seconds):
                for claim in missing:
                    message = "Waiting on readiness to continue disruption"
                    self._events.record(claim, reasons.DISRUPTION_WAITING_READINESS, message, _now())
                return seconds
            case Undo():
                return await self._undo(step)
            case Delete(command=command):
                for claim in command.old:
                    if await self._removals.delete(claim, command.reason) is Deletion.FENCED:
                        return FENCED_SECONDS
                self._ended(command, "")
                return None

    async def _replace(self, command: Command, well_known: frozenset[str]) -> float | None:
        """Mark the old machines, then create the replacements. What is marked without them is undone by `advance`."""
        claims = self._caches.claims.items()
        if (seconds := await self._creator.stale(claims)) is not None:
            return seconds
        for machine in command.machines:
            if not await self._mark(machine, command.reason):
                return STALE_SECONDS
        self._observer.decided(command)
        known = annotations((one.claim for one in command.machines), len(command.replacements))
        created = await self._creator.create(command.replacements, claims, well_known, known)
        self._nominations.record(created.claims, _now())
        names = ", ".join(created.claims)
        log.info("replacing machines", NodeClaims=[one.claim.name for one in command.machines],
                 replacements=created.claims, reason=command.reason, saving=round(command.saving, 3))  # fmt: skip
        for machine in command.machines:
            message = f"Launching NodeClaim: {command.reason}; waiting for {names} to be Initialized"
            self._actuator.record_event(machine.claim, _event(reasons.DISRUPTION_LAUNCHING, message))
        return created.again_seconds

    async def _mark(self, machine: Machine, reason: str) -> bool:
        """The condition, then the taint; False if one of them changed meanwhile, or may not be written."""
        claim, node, now = machine.claim, machine.node, self._clock.now()
        marked = ConditionSet.of(claim, now).set(DISRUPTION_REASON, "True", reason=reason, message=reason, now=now)
        if not await self._write(PatchStatus(claim=claim, conditions=marked.items, fields={})):
            return False
        patch = taint(node, now) if node is not None else ()
        return (
            node is None
            or not patch
            or await self._write(PatchNode(node=node, patch=patch, why="taint a Node that is being replaced"))
        )

    async def _remove(self, command: Command) -> float | None:
        """Delete machines whose pods have room elsewhere, unless a pod was bound that the decision did not see."""
        for machine in command.machines:
            if await self._removals.is_used(machine):
                self._observer.rejected(command)
                return STALE_SECONDS
        for machine in command.machines:
            if await self._removals.delete(machine.claim, command.reason) is Deletion.FENCED:
                return FENCED_SECONDS
        self._observer.decided(command)
        return None

    async def _undo(self, step: Undo) -> float | None:
        """Undo a command, if a fresh LIST shows that it failed."""
        listed = answer(await self._actuator.read(LookUpClaims()), ReadClaims)
        old = {claim.uid for claim in step.command.old}
        now = self._clock.now()
        fresh = [next_step(one, now, self._limit_seconds) for one in _of(under_way(listed.claims), old)]
        for found in fresh:
            if not isinstance(found, Undo):
                continue
            for claim in found.unused:
                message = f"Deleted: {found.why}"
                event = Event(type="Warning", reason=reasons.REPLACEMENT_FAILED, message=message)
                cause: Cause = "replacement-failed"
                if (
                    await delete_claim(self._actuator, DeleteClaim(claim=claim, cause=cause, event=event))
                    is Deletion.FENCED
                ):
                    return FENCED_SECONDS
            for claim in found.command.old:
                if not await self._unmark(claim, found.why):
                    return STALE_SECONDS
            log.warning("disruption undone", NodeClaims=[one.name for one in found.command.old], cause=found.why)
            self._observer.undone(found.command)
            self._ended(found.command, found.why)
        return STALE_SECONDS

    async def _unmark(self, claim: NodeClaim, why: str) -> bool:
        """Remove the taint, then the condition by which a command is found."""
        for node in await self._nodes(claim):
            patch = untaint(node)
            if patch and not await self._write(
                PatchNode(node=node, patch=patch, why="the Node is not replaced after all")
            ):
                return False
        kept = ConditionSet.of(claim, self._clock.now()).clear(DISRUPTION_REASON)
        event = Event(type="Warning", reason=reasons.REPLACEMENT_FAILED, message=f"The machine is kept: {why}")
        return await self._write(PatchStatus(claim=claim, conditions=kept.items, fields={}, events=(event,)))

    async def _nodes(self, claim: NodeClaim) -> Sequence[Node]:
        """The claim's Node as it is now: the cache may lack a taint that was just added."""
        cached = self._caches.nodes.get(claim.status.node_name) if claim.status.node_name else None
        if cached is None:
            return ()
        pool = cached.metadata.labels.get(labels.AKS_AGENTPOOL, "")
        listed = answer(await self._actuator.read(LookUpNodes(pool=pool)), ReadNodes)
        return [node for node in listed.nodes if node.name == cached.name]

    async def _write(self, step: Write) -> bool:
        """False if the write was refused or may not be sent. Raises KubeError if it can succeed when it is repeated."""
        match await self._actuator.write(step, None):
            case KubeFailed(error=error) if not (error.not_found or error.conflict or error.refused):
                raise error
            case KubeFailed() | Fenced():
                return False
        return True


def _of(commands: Sequence[Replacement], old: set[str]) -> list[Replacement]:
    return [one for one in commands if any(claim.uid in old for claim in one.old)]


def _event(reason: str, message: str) -> Event:
    return Event(type="Normal", reason=reason, message=message)


def _now() -> float:
    return asyncio.get_running_loop().time()
