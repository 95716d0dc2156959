"""Consolidation: when it is searched for, what a search proposes, and the validation of a proposal after 15 seconds.

A search that found nothing is not repeated while nothing of what it read has changed.

Source: docs/references/karpenter.md#disruption-queue, https://karpenter.sh/docs/concepts/disruption/.
"""

import asyncio

import structlog

from controllers.disruption.blockers import Unreported
from controllers.disruption.command import Command
from controllers.disruption.consolidation import Consolidation, consolidate, validated
from controllers.disruption.view import View
from provisioner.api import reasons
from provisioner.api.conditions import CONSOLIDATABLE
from provisioner.runtime.compute import Compute

from .demand_caches import DemandCaches
from .disruption_events import RecordEvent, disruption_event
from .disruption_observer import DisruptionObserver, timed
from .disruption_read import Known, Read

# Schedules of budgets end without an event.
POLL_SECONDS = 10.0
# So long a consolidation is observed before it is carried out.
VALIDATION_SECONDS = 15.0
# What a consolidation reads changes without an event, too: offerings, budgets, what blocks machines.
CONSOLIDATION_SECONDS = 60.0
# A search that found nothing is repeated after so long, although nothing is known to have changed, as in Karpenter.
SEARCH_SECONDS = 300.0

log = structlog.get_logger("disruption")


class ConsolidationMethod:
    """`changes`: how many changes have been seen."""

    def __init__(
        self,
        caches: DemandCaches,
        *,
        record_event: RecordEvent,
        observer: DisruptionObserver,
        compute: Compute,
    ) -> None:
        self._caches = caches
        self._record_event = record_event
        self._observer = observer
        self._compute = compute
        self._proposed: tuple[Command, float] | None = None
        self._due_at = 0.0
        self._searched: tuple[Known, float] | None = None
        self.changes = 0

    def search_again(self) -> None:
        """Something changed that a search reads."""
        self.changes += 1
        self._due_at = 0.0

    @property
    def due_in(self) -> float:
        """Seconds until a search, or the validation of a proposal, is due; 0 if one is."""
        at = self._due_at if self._proposed is None else self._proposed[1] + VALIDATION_SECONDS
        return max(0.0, at - _now())

    def has_searched(self, read: Read) -> bool:
        """Whether a search found nothing, and nothing is known to have changed since. The next one is due later."""
        if self._proposed is not None or self._searched is None:
            return False
        known, at = self._searched
        if read.known != known or _now() >= at + SEARCH_SECONDS:
            return False
        self._due_at = _now() + CONSOLIDATION_SECONDS
        return True

    async def decide(self, view: View, read: Read) -> tuple[Command | None, float]:
        """The command that was proposed 15 seconds ago, if it still holds; otherwise the seconds until the next pass.

        Call it when it is due.
        """
        if self._proposed is not None:
            command, _ = self._proposed
            self._proposed = None
            current = await self._compute(lambda: validated(command, view))
            if isinstance(current, Command):
                return current, 0.0
            self._observer.rejected(command)
            log.info("consolidation rejected", NodeClaims=_names(command), cause=current)
        found = await timed(self._observer, self._compute, "Underutilized", lambda: consolidate(view))
        self._observer.candidates("Underutilized", found.eligible)
        self._report(found)
        if found.command is not None:
            log.debug("consolidation proposed", NodeClaims=_names(found.command), saving=round(found.command.saving, 3))
            self._proposed = found.command, _now()
            return None, VALIDATION_SECONDS
        if read.changes == self.changes:
            self._due_at = _now() + (POLL_SECONDS if found.cut else CONSOLIDATION_SECONDS)
            self._searched = None if found.cut else (read.known, _now())
        return None, POLL_SECONDS

    def _report(self, found: Consolidation) -> None:
        """Events about machines that are looked at and not consolidated."""
        for name, why in found.kept.items():
            claim = self._caches.claims.get(name)
            if claim is not None and claim.condition(CONSOLIDATABLE, "True") and not isinstance(why, Unreported):
                self._record_event(claim, disruption_event(claim, reasons.UNCONSOLIDATABLE, why))


def _names(command: Command) -> list[str]:
    return [one.claim.name for one in command.machines]


def _now() -> float:
    return asyncio.get_running_loop().time()
