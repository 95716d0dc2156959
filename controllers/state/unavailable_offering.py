"""One scope of offerings that is unavailable for a while, and a claim that waits for an offering.

Loop times in seconds; wall times where the time of a PUT (a pool's tag) is compared.
"""

from dataclasses import dataclass, field
from datetime import datetime

from cloudprovider.interface import Failure, Offering
from controllers.model.offering_scope import OfferingScope

from .memory import backoff

# Azure reports a shortage within minutes: after this, the next claim no longer waits for the result.
PROBE_MOST_SECONDS = 600.0


@dataclass(slots=True)
class UnavailableOffering:
    """One scope that is unavailable for `seconds` from `failed_at`.

    `failed`: when each offering in the scope that was requested failed last (loop times). `probe`: the key that
    requests one, since `probed_at`; `restored`: known from conditions of claims only.
    """

    offering_scope: OfferingScope
    failure: Failure
    times: int
    failed_at: float
    failed_wall: datetime
    seconds: float
    failed: dict[Offering, float] = field(default_factory=dict)
    probe: str = ""
    probed_at: float = 0.0
    restored: bool = False

    def remaining(self, now: float) -> float:
        """Seconds until it may be requested; 0 or less if it may."""
        return self.seconds - (now - self.failed_at)

    def probed_by_another(self, key: str, now: float) -> bool:
        """Whether another key's request is in flight."""
        return self.probe not in ("", key) and now - self.probed_at < PROBE_MOST_SECONDS


@dataclass(slots=True, frozen=True)
class Waiter:
    """A claim that waits for nothing but an available offering."""

    created: datetime
    offerings: tuple[Offering, ...]


def resumed(failure: Failure, age: float) -> tuple[int, float]:
    """The number of failures in `age` seconds, each at the end of the delay before, and the age of the last one."""
    times, seconds = 1, backoff(failure.kind, 1, after=failure.after) or 0.0
    while 0.0 < seconds <= age:
        longer = backoff(failure.kind, times + 1, after=failure.after) or 0.0
        if longer == seconds:
            return times + int(age // seconds), age % seconds
        times, age, seconds = times + 1, age - seconds, longer
    return times, age
