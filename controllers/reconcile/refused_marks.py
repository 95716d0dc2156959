"""Marks of disruption commands that the API server does not let go: the next attempt comes later each time.

The user reads the cause in an Event of the NodeClaim. A restart begins with the first delay.
"""

import asyncio
from collections.abc import Awaitable, Iterable

from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim

from .command_marks import NotWritten
from .disruption_events import RecordEvent, disruption_event

FIRST_SECONDS, MOST_SECONDS = 10.0, 600.0


class RefusedMarks:
    """By the UID of the NodeClaim; times are loop times in seconds."""

    def __init__(self, record_event: RecordEvent) -> None:
        self._record_event = record_event
        self._refused: dict[str, tuple[int, float]] = {}

    def delay(self, claims: Iterable[NodeClaim]) -> float:
        """Seconds until the next attempt for all of these."""
        now = _now()
        return max((self._refused[one.uid][1] - now for one in claims if self._lasts(one, now)), default=0.0)

    def forget_others(self, claims: Iterable[NodeClaim]) -> None:
        """These exist."""
        self._refused = {one.uid: self._refused[one.uid] for one in claims if one.uid in self._refused}

    async def left(self, claim: NodeClaim, write: Awaitable[None]) -> float:
        """0 once it is written, or nothing need be written any more; otherwise the seconds until the next attempt."""
        try:
            await write
        except NotWritten as error:
            if error.refused:
                times, now = self._refused.get(claim.uid, (0, 0.0))[0], _now()
                seconds = min(FIRST_SECONDS * 2.0 ** min(times, 16), MOST_SECONDS)
                self._refused[claim.uid] = times + 1, now + seconds
                message = f"failed to undo its disruption, which is repeated: {error}"
                self._record_event(claim, disruption_event(claim, reasons.DISRUPTION_BLOCKED, message))
                return seconds
        self._refused.pop(claim.uid, None)
        return 0.0

    def _lasts(self, claim: NodeClaim, now: float) -> bool:
        return self._refused.get(claim.uid, (0, now))[1] > now


def _now() -> float:
    return asyncio.get_running_loop().time()
