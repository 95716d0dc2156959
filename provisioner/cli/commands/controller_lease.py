"""Whether a controller is running, by its Lease.

A Lease is current while its holder renews it: the times of several reads are compared on one clock, never the clocks of
two machines. One read of a Lease that has a holder shows nothing.

Source: docs/references/reliability.md#lease-rules.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from provisioner.runtime.kept import whole
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import Lease
from provisioner.runtime.resources import LEASES

from .clients import Tools
from .refusal import by_api_server

# A leader renews its Lease every 5 seconds.
READ_SECONDS = 2.0
DURATION_SECONDS = 30.0


class Controller(StrEnum):
    RUNNING = "running"  # the Lease was renewed within its duration
    UNKNOWN = "unknown"  # the Lease has a holder, which has not renewed it yet
    STOPPED = "stopped"  # the Lease has no holder, or the holder does not renew it
    ABSENT = "absent"  # there is no Lease


@dataclass(frozen=True, slots=True)
class _Seen:
    """`first` and `changed` are times of the loop in seconds."""

    lease: Lease
    first: float
    changed: float

    def idle_seconds(self, now: float) -> float:
        """Seconds for which the Lease has had no current holder; negative while it has one."""
        spec = self.lease.spec
        duration = max(DURATION_SECONDS, float(spec.lease_duration_seconds or 0)) if spec.holder_identity else 0.0
        return now - self.changed - duration

    def state(self, now: float) -> Controller:
        if self.idle_seconds(now) >= 0:
            return Controller.STOPPED
        return Controller.RUNNING if self.changed > self.first else Controller.UNKNOWN


class LeaseObserver:
    """Compares successive reads of the Leases of one name, in all namespaces."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def observe(self, leases: Sequence[Lease], now: float) -> None:
        """Note what a read at `now` (seconds of the loop) has shown."""
        seen = {}
        for lease in leases:
            before = self._seen.get(lease.metadata.uid)
            if before is None:
                seen[lease.metadata.uid] = _Seen(lease, now, now)
            else:
                changed = before.changed if _record(before.lease) == _record(lease) else now
                seen[lease.metadata.uid] = _Seen(lease, before.first, changed)
        self._seen = seen

    def controller(self, now: float) -> Controller:
        """The state of the Lease that is closest to a running controller."""
        states = {seen.state(now) for seen in self._seen.values()}
        return next((state for state in Controller if state in states), Controller.ABSENT)

    def idle_seconds(self, now: float) -> float:
        """Seconds for which no Lease has had a current holder; 0 while one has."""
        return max(0.0, min((seen.idle_seconds(now) for seen in self._seen.values()), default=0.0))

    def leases(self) -> tuple[Lease, ...]:
        """The Leases of the last read."""
        return tuple(seen.lease for seen in self._seen.values())


async def observe_controller(tools: Tools, observer: LeaseObserver) -> None:
    """Read the Leases until it is known whether their holders renew them, at most for their duration.

    Raises Refused.
    """
    now = asyncio.get_running_loop().time
    observer.observe(await read_leases(tools), now())
    while observer.controller(now()) is Controller.UNKNOWN:
        await asyncio.sleep(READ_SECONDS)
        observer.observe(await read_leases(tools), now())


async def read_leases(tools: Tools) -> tuple[Lease, ...]:
    """All Leases with the controller's name: the namespace of a release may differ from the one in the settings.

    Raises Refused.
    """
    name = tools.config.lease_name
    try:
        return (await tools.clients.kube.list(LEASES, digest=whole, field_selector=f"metadata.name={name}")).items
    except KubeError as error:
        raise by_api_server(error) from None


def _record(lease: Lease) -> tuple[str | None, str | None, int | None]:
    return lease.spec.holder_identity, lease.spec.renew_time, lease.spec.lease_transitions
