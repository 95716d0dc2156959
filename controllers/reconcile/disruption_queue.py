"""Carries out disruption commands: replacements first, then the deletion of the old NodeClaims, or the way back.

Everything that a command has done is in the objects: its marks are written before the replacements, so that a crash at
any write is followed by one or the other (`controllers.disruption.commands_under_way`).

Source: docs/references/karpenter.md#disruption-queue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.blockers import REFUSED
from controllers.disruption.command import Command
from controllers.disruption.commands_under_way import (
    Await,
    Delete,
    Places,
    Replacement,
    Step,
    Undo,
    annotations,
    last_step,
    next_step,
    under_way,
    undo,
)
from controllers.model.steps import Event
from controllers.provisioning.nominations import Nominations
from controllers.provisioning.price_messages import usd_per_hour
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube import KubeError

from .claim_creator import STALE_SECONDS, ClaimCreator
from .claim_deletion import Deletion
from .command_marks import CommandMarks, NotWritten
from .demand_caches import DemandCaches
from .disruption_events import disruption_event
from .machines import Machines
from .observers import DisruptionObserver
from .removals import Removals
from .request_errors import RequestErrors
from .undoing import Undoing
from .wall_clock import ObservedAges

# So long a cache may lack a pod that exists.
HELD_SECONDS = 120.0
# So long a deletion may fail; meanwhile the machine takes no pods, and its replacement is paid for as well.
FAILED_SECONDS = 1800.0
# How often it is computed whether the pods of a machine that is replaced have a place.
LOOK_SECONDS = 10.0

log = structlog.get_logger("disruption")


class DisruptionQueue:
    """`ended(command, why)`: a command is complete, or was undone with this cause.

    `places(command)`: where the pods of its old machines go now; None if that is not known. `trying(claim)`: whether
    its launch failed and it has further offerings to try.

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
        ended: Callable[[Replacement, str], None],
        places: Callable[[Replacement], Awaitable[Places | None]],
        trying: Callable[[NodeClaim], bool],
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
        self._ended = ended
        self._places = places
        self._trying = trying
        self._destinations: dict[str, tuple[str, ...]] = {}
        self._look_at: dict[str, float] = {}
        self._limit_seconds = limit_seconds
        self._marks = CommandMarks(caches.claims, caches.nodes, actuator, clock)
        self._ages = ObservedAges(clock)
        self._held: dict[str, float] = {}
        self._undoing = Undoing(
            actuator,
            self._marks,
            observer=observer,
            ended=ended,
            keeps_empty=machines.keeps_empty,
        )

    async def begin(self, command: Command, well_known: frozenset[str]) -> float | None:
        """Carry out a command that was decided in this step of the event loop; seconds to wait if that failed.

        Raises KubeError for a request that can succeed when it is repeated; what was written is then undone. After an
        error of the server, or without a response, others have their turn: a webhook can fail for these machines only.
        """
        old = tuple(machine.claim for machine in command.machines)
        with self._machines.leaving.reserved(old):
            try:
                return await (self._replace(command, well_known) if command.replacements else self._remove(command))
            except KubeError as error:
                if error.server_error or error.timed_out:
                    self._ended(Replacement(id="", old=old, decided=command.reason), f"it failed: {error}")
                raise

    async def advance(self, errors: RequestErrors) -> float | None:
        """The next step of each command under way. Returns the seconds until the next one, None without a command.

        What fails for one command is kept in `errors`.
        """
        commands = under_way(self._caches.of_commands())
        self._ages.look(claim for command in commands for claim in command.new)
        self._held = {one.id: self._held[one.id] for one in commands if one.id in self._held}
        self._reserve(commands)
        waits = list[float]()
        for one in commands:
            with errors.kept():
                seconds = await self._advance(self._next(one))
                waits += [seconds] if seconds is not None else []
        # A rest of a second that is lost in rounding would be waited for again and again.
        return max(STALE_SECONDS, min(waits)) if waits else None

    def _reserve(self, commands: Iterable[Replacement]) -> None:
        """Keep the machines from being disrupted to which the commands under way move pods.

        They are not known after a restart; the places of the pods are looked at again before their machine is deleted.
        """
        known = {command.id for command in commands}
        self._destinations = {name: of for name, of in self._destinations.items() if name in known}
        self._look_at = {name: at for name, at in self._look_at.items() if name in known}
        self._nominations.record((one for of in self._destinations.values() for one in of), _now())

    def _next(self, command: Replacement) -> Step:
        # An unknown reason is stated rather than what would prevent another one.
        for claim in () if command.unknown_reason else command.old:
            why = self._machines.protected(claim, command.reason) or self._machines.unwanted(claim, command.reason)
            if why:
                return undo(msgspec.structs.replace(command, protected=True), why)
        trying = {claim.uid for claim in command.new if self._trying(claim)}
        return next_step(command, self._ages.all, self._limit_seconds, trying)

    async def _advance(self, step: Step) -> float | None:
        match step:
            case Await(missing=missing, seconds=seconds):
                for claim in missing:
                    message = "Waiting on readiness to continue disruption"
                    self._actuator.record_event(
                        claim, disruption_event(claim, reasons.DISRUPTION_WAITING_READINESS, message)
                    )
                return seconds
            case Undo(command=command):
                wait = max(self._undoing.delay(command), self._ages.settling(command.new))
                return wait or await self._undoing.undo(command.old, self._still_fails)
            case Delete(command=command):
                return await self._finish(command)

    async def _finish(self, command: Replacement) -> float | None:
        """Delete the old machines if each of their pods has a place; wait for one that is coming, or undo it."""
        if (seconds := max(self._look_at.get(command.id, 0.0) - _now(), self._undoing.delay(command))) > 0:
            return seconds
        places = await self._places(command)
        if places is None:
            return STALE_SECONDS
        match last_step(command, places, self._ages.all, self._limit_seconds):
            case Await(seconds=seconds):
                self._look_at[command.id] = _now() + LOOK_SECONDS
                return min(seconds, LOOK_SECONDS)
            case Undo(why=why):
                return await self._undoing.undo(command.old, lambda one: undo(one, why))
            case Delete():
                return await self._complete(command)

    async def _complete(self, command: Replacement) -> float | None:
        """Delete the old NodeClaims, once the cache has the pods that a list made now shows on their Nodes."""
        for claim in command.old:
            if await self._removals.is_used(self._machines.machine(claim)):
                return await self._hold(command)
        refused = list[NodeClaim]()
        for claim in command.old:
            try:
                deletion = await self._removals.delete(claim, command.reason)
            except KubeError as error:
                return await self._fail(command, error)
            match deletion:
                case Deletion.REFUSED:
                    refused.append(claim)
                case Deletion.KEPT:
                    return await self._hold(command)
        if refused:
            # The machines take pods again, beside their replacements, and use no budget.
            return await self._undoing.undo(refused, lambda one: undo(one, REFUSED))
        self._ended(command, "")
        return None

    async def _hold(self, command: Replacement) -> float:
        """Wait for the cache, which never shows a pod that cannot be read: the command is undone then."""
        held = _now() - self._held.setdefault(command.id, _now())
        if held < HELD_SECONDS:
            return max(STALE_SECONDS, held)
        why = "pods on its Node are not known"
        return await self._undoing.undo(command.old, lambda one: undo(one, why))

    async def _fail(self, command: Replacement, error: KubeError) -> float:
        """The deletion failed in a way that may pass; the command is undone if it does not. Raises `error` before."""
        if _now() - self._held.setdefault(command.id, _now()) < FAILED_SECONDS:
            raise error
        why = f"failed to delete: {error}"
        return await self._undoing.undo(command.old, lambda one: undo(one, why))

    def _still_fails(self, command: Replacement) -> Undo | None:
        step = self._next(command)
        return step if isinstance(step, Undo) else None

    async def _replace(self, command: Command, well_known: frozenset[str]) -> float | None:
        """Mark the old machines, then create the replacements, if the API server would delete the old NodeClaims."""
        claims, pools = self._caches.claims.items(), self._caches.node_pools()
        if (seconds := await self._creator.stale(claims)) is not None:
            return seconds
        if not await self._would_delete(command):
            return STALE_SECONDS
        try:
            name = await self._mark(command)
        except NotWritten as error:
            return await self._withdraw(command, error)
        except KubeError as error:
            # Nothing was bought: others of the NodePool do not wait for what fails for these machines.
            await self._withdraw(command, NotWritten(str(error)))
            raise
        self._observer.decided(command)
        known = annotations(name, (one.claim for one in command.machines), len(command.replacements))
        created = await self._creator.create(command.replacements, claims, well_known, pools, lambda _: known)
        self._destinations[name] = command.destinations
        self._nominations.record((*created.claims, *command.destinations), _now())
        if created.denied:
            return await self._withdraw(command, NotWritten(refused=created.denied[0]))
        names = ", ".join(created.claims)
        log.info("replacing machines", NodeClaims=[one.claim.name for one in command.machines], command=name,
                 replacements=created.claims, reason=command.reason, saving=round(command.saving, 3))  # fmt: skip
        saving = f"; saves at least {usd_per_hour(command.saving)}" if command.saving > 0 else ""
        for machine in command.machines:
            message = f"Launching NodeClaim: {command.reason}; waiting for {names} to be Initialized{saving}"
            self._actuator.record_event(machine.claim, _event(reasons.DISRUPTION_LAUNCHING, message))
        return created.again_seconds

    async def _mark(self, command: Command) -> str:
        """Mark the machines; the ID of the command. Raises NotWritten if it must not go on, and KubeError."""
        name = ""
        for machine in command.machines:
            name = await self._marks.mark(machine, name, command.reason)
        # From the taint on no other pod is bound, besides those that kube-scheduler has already decided about.
        for machine in command.machines:
            if await self._removals.is_used(machine):
                self._observer.rejected(command)
                raise NotWritten("a pod was bound before the taint")
        # Right before the purchase: a user, or another controller, may have ended the command since.
        for machine in command.machines:
            await self._marks.confirm(machine, name, command.reason)
        return name

    async def _would_delete(self, command: Command) -> bool:
        """Whether the old NodeClaims may be deleted. A refusal delays those that it is about, as one of a deletion."""
        refused = list[NodeClaim]()
        for machine in command.machines:
            match await self._removals.would_delete(machine.claim):
                case Deletion.CHANGED:
                    return False
                case Deletion.REFUSED:
                    refused.append(machine.claim)
        if refused:
            self._ended(Replacement(id="", old=tuple(refused), decided=command.reason), REFUSED)
        return not refused

    async def _withdraw(self, command: Command, error: NotWritten) -> float:
        """Remove the marks of a command that could not be marked as a whole; it failed only if it was refused."""
        old = [machine.claim for machine in command.machines]
        seconds = await self._undoing.undo(old, lambda one: undo(one, str(error)), failed=False)
        if error.refused:
            self._ended(Replacement(id="", old=tuple(old), decided=command.reason), error.refused)
        return seconds

    async def _remove(self, command: Command) -> float | None:
        """Delete machines whose pods have room elsewhere, unless a pod was bound that the decision did not see."""
        for machine in command.machines:
            if await self._removals.is_used(machine):
                self._observer.rejected(command)
                return STALE_SECONDS
        for machine in command.machines:
            await self._removals.delete(machine.claim, command.reason)
        self._nominations.record(command.destinations, _now())
        self._observer.decided(command)
        return None


def _event(reason: str, message: str) -> Event:
    return Event(type="Normal", reason=reason, message=message)


def _now() -> float:
    return asyncio.get_running_loop().time()
