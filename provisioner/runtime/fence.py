"""Lets a write pass only while this process leads for as long as the request may take.

Every write of the controllers passes one fence: those to Kubernetes in `Kube.fenced`, those to the cloud in the
actuator. A request that was cancelled in flight can still take effect, so the Lease is not released before it ends.
A write that does not pass ends the reconcile that sends it; its key is queued again (`controller.py`).

Source: docs/references/rules.md#leader-election.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .logs import get_logger

R = TypeVar("R")

# A key whose write did not pass is reconciled again after this time: the Lease is renewed by then, or lost.
RETRY_SECONDS = 5.0

log = get_logger("fence")


class LeaseExpires(Exception):
    """A write was not sent, because another replica may lead before it ends."""


class Fence:
    """`lease_left`: seconds for which no other replica can lead (inf without leader election).

    `on_cancelled(seconds)` is called for a write that was cancelled in flight: for so long it can still take effect.
    """

    def __init__(
        self, lease_left: Callable[[], float] = lambda: math.inf, on_cancelled: Callable[[float], None] = lambda _: None
    ) -> None:
        self._lease_left = lease_left
        self._on_cancelled = on_cancelled

    @property
    def leads(self) -> bool:
        """Whether this process leads now."""
        return self._lease_left() > 0

    async def send(self, what: str, seconds: float, request: Callable[[], Awaitable[R]]) -> R:
        """The result of the request, which takes at most `seconds`. Raises LeaseExpires, and what `request` raises."""
        if self._lease_left() <= seconds:
            log.warning("write not sent: the Lease expires too soon", write=what)
            raise LeaseExpires(what)
        try:
            return await request()
        except asyncio.CancelledError:
            self._on_cancelled(seconds)
            raise
