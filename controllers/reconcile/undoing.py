"""Undoes disruption commands: unused replacements are deleted, the others stay, and the old machines take pods again.

What the API server refuses is repeated with growing delays. A replacement whose deletion is refused stays.

Source: docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Callable, Iterable

import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.commands_under_way import Replacement, Undo, under_way
from controllers.gate.gate import Evidence
from controllers.model.conditions import was_usable
from controllers.model.ownership import managed
from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim

from .claim_creator import STALE_SECONDS
from .claim_deletion import Deletion, delete_claim
from .command_marks import CommandMarks
from .observers import DisruptionObserver
from .refused_marks import RefusedMarks

log = structlog.get_logger("disruption")


class Undoing:
    """`ended(command, why)`: a command was undone with this cause.

    `keeps_empty(claim)`: whether its NodePool removes no empty machine.
    """

    def __init__(
        self,
        actuator: Actuator,
        marks: CommandMarks,
        *,
        observer: DisruptionObserver,
        ended: Callable[[Replacement, str], None],
        keeps_empty: Callable[[NodeClaim], bool],
    ) -> None:
        self._actuator = actuator
        self._marks = marks
        self._observer = observer
        self._ended = ended
        self._keeps_empty = keeps_empty
        self._refusals = RefusedMarks(actuator.record_event)

    def delay(self, command: Replacement) -> float:
        """Seconds for which the command is not undone, because the API server refused that; 0 if it may be."""
        return self._refusals.delay((*command.old, *command.new))

    async def undo(
        self, old: Iterable[NodeClaim], undo_of: Callable[[Replacement], Undo | None], *, failed: bool = True
    ) -> float:
        """Undo the commands of these NodeClaims that a fresh LIST shows; the seconds until the next look.

        `undo_of(command)`: the undo of this command, None if it goes on. `failed`: whether that counts as a failure.
        Raises KubeError for a request that can succeed when it is repeated.
        """
        uids = {claim.uid for claim in old}
        listed = await self._actuator.reads.claims()
        self._refusals.forget_others(listed)
        again = STALE_SECONDS
        for command in under_way(listed):
            step = undo_of(command) if any(claim.uid in uids for claim in command.old) else None
            if step is not None:
                again = max(again, await self._undo(step, failed=failed))
        return again

    async def _undo(self, step: Undo, *, failed: bool) -> float:
        for claim in step.unused:
            await self._delete(claim, step.why)
        message = f"The machine is kept: {step.why}"
        event = Event(type="Warning", reason=reasons.REPLACEMENT_FAILED, message=message)
        events = (event,) if failed else ()
        left = [await self._refusals.left(claim, self._marks.release(claim)) for claim in step.kept]
        left += [await self._refusals.left(claim, self._marks.unmark(claim, events)) for claim in step.command.old]
        if any(left):
            return max(left)
        for claim in step.kept:
            if self._keeps_empty(claim):
                names = ", ".join(one.name for one in step.command.old)
                self._actuator.record_event(claim, _stays(names))
        log.warning("disruption undone", NodeClaims=[one.name for one in step.command.old], cause=step.why)
        if failed:
            self._observer.undone(step.command)
            self._ended(step.command, step.why)
        return STALE_SECONDS

    async def _delete(self, claim: NodeClaim, why: str) -> None:
        """Delete a replacement that took no pod. One whose deletion is refused becomes an ordinary machine."""
        unused = Evidence(cause="replacement-failed", uid=claim.uid, ours=managed(claim), works=was_usable(claim))
        deletion = await delete_claim(self._actuator, claim, unused, f"Deleted: {why}")
        if deletion is Deletion.REFUSED:
            await self._refusals.left(claim, self._marks.release(claim))


def _stays(names: str) -> Event:
    message = f"It does not replace {names} after all, and consolidateAfter is Never: delete it if no pod needs it"
    return Event(type="Warning", reason=reasons.REPLACEMENT_FAILED, message=message)
