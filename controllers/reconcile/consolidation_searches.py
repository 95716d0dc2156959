"""When consolidation is searched for: not while nothing has changed, and not while a proposal is observed.

A proposal is validated after 15 seconds. A search that found nothing is not repeated while nothing of what it read has
changed.

Source: docs/references/karpenter.md#disruption-queue, https://karpenter.sh/docs/concepts/disruption/.
"""

import asyncio

from controllers.disruption.command import Command, Evaluation

from .disruption_read import Known, Read

# Schedules of budgets end without an event.
POLL_SECONDS = 10.0
# So long a consolidation is observed before it is carried out.
VALIDATION_SECONDS = 15.0
# What a consolidation reads changes without an event, too: offerings, budgets, what blocks machines.
CONSOLIDATION_SECONDS = 60.0
# A search that found nothing is repeated after so long, although nothing is known to have changed, as in Karpenter.
SEARCH_SECONDS = 300.0


class ConsolidationSearches:
    """`changes`: how many changes have been seen."""

    def __init__(self) -> None:
        self._proposed: tuple[Command, float] | None = None
        self._due_at = 0.0
        self._searched: tuple[Known, float] | None = None
        self.changes = 0

    def search_again(self) -> None:
        """Something changed that a search reads."""
        self.changes += 1
        self._due_at = 0.0

    @property
    def proposes(self) -> bool:
        """Whether a proposal waits for its validation."""
        return self._proposed is not None

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

    def proposal(self) -> Command | None:
        """The command to validate; the next search follows if it must not begin. Call it when one is due."""
        proposed, self._proposed = self._proposed, None
        return proposed[0] if proposed is not None else None

    def searched(self, read: Read, found: Evaluation) -> float:
        """A search read this and found that; returns the seconds until the next pass."""
        if found.command is not None:
            self._proposed = found.command, _now()
            return VALIDATION_SECONDS
        if read.changes == self.changes:
            self._due_at = _now() + (POLL_SECONDS if found.cut else CONSOLIDATION_SECONDS)
            self._searched = None if found.cut else (read.known, _now())
        return POLL_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()
