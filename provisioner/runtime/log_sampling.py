"""What is said over and over is said less: a hot loop must not fill a disk, nor a bill.

Of lines with the same level, logger and message, the first hundred of a second pass, then every hundredth;
what was written to the cluster and to Azure is an audit and passes always. Nothing is counted for longer than a second.

Source: docs/references/karpenter.md#process, docs/references/reliability.md#threats (audit).
"""

from collections import Counter
from typing import Any

import structlog
from structlog.typing import EventDict

from .clock import Clock

FIRST, THEREAFTER = 100, 100
AUDIT = "wrote"


class Sampling:
    """A structlog processor, behind those that add level and logger."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._said: Counter[tuple[object, object, object]] = Counter()

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        """The event as it is. Raises DropEvent for one too many."""
        message = event.get("event")
        if message == AUDIT:
            return event
        second = int(self._clock.now().timestamp())
        if second != self._second:
            self._second = second
            self._said.clear()
        kind = (event.get("level"), event.get("logger"), message)
        self._said[kind] += 1
        over = self._said[kind] - FIRST
        if over > 0 and over % THEREAFTER:
            raise structlog.DropEvent
        return event
