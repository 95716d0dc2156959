"""Sampling of log lines, as zap's sampler does it for Karpenter.

Of lines with the same level, logger and message the first hundred of a second pass, then every hundredth. Lines about
writes to the cluster and to Azure are an audit log and always pass. Counters live for one second.

Source: docs/references/karpenter.md#process, docs/references/reliability.md#threats (audit).
"""

from collections import Counter
from typing import Any

import structlog
from structlog.typing import EventDict

from .clock import Clock

FIRST, THEREAFTER = 100, 100
# The loggers of writes and of what they mean.
AUDIT = frozenset({"actuator", "cloudprovider", "lifecycle"})


class Sampling:
    """A structlog processor; it runs after those that add level and logger."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._counts: Counter[tuple[object, object, object]] = Counter()

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        """The event unchanged. Raises DropEvent for a line that is sampled out."""
        if event.get("logger") in AUDIT:
            return event
        second = int(self._clock.now().timestamp())
        if second != self._second:
            self._second = second
            self._counts.clear()
        line = (event.get("level"), event.get("logger"), event.get("event"))
        self._counts[line] += 1
        excess = self._counts[line] - FIRST
        if excess > 0 and excess % THEREAFTER:
            raise structlog.DropEvent
        return event
