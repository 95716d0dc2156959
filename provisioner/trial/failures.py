"""The unhappy stories of `try --fail`: what Azure does wrong, how a claim says so, and how it ends.

Values only, so that the command line can name them at once.
"""

from dataclasses import dataclass

SLOW_GPU_SECONDS = 900.0
IN_ORDER: tuple[str, ...] = ("pool", "node", "claim")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """`told` says what Azure does, `shown` what a person sees of it.

    A claim that meets it says so by `condition` and `reason`, for at least `lasts_seconds` of Azure's time; `every`
    claim meets it, or one at least. `ends`: the claim gets Ready all the same. `goes`: what of it disappears, in order.
    """

    told: str
    shown: str
    condition: str
    reason: str
    every: bool
    ends: bool
    lasts_seconds: float = 0.0
    goes: tuple[str, ...] = IN_ORDER


FAILURES = {
    "quota": Failure(
        told="the subscription has no cores left for any size, and never will have",
        shown="The claim says QuotaExceeded and what to do; it is tried again after 30 s, 60 s, … and never gets Ready."
        " Deleting it ends it at once: there is no machine to take away.",
        condition="Launched",
        reason="QuotaExceeded",
        every=True,
        ends=False,
        goes=("claim",),
    ),
    "capacity": Failure(
        told="Azure accepts the first agent pool and then finds no machine for it",
        shown="The claim says AllocationFailed, the failed pool is removed, and 30 s later the next try succeeds.",
        condition="Launched",
        reason="AllocationFailed",
        every=False,
        ends=True,
        goes=("pool", *IN_ORDER),
    ),
    "slow-gpu": Failure(
        told="the device plugin shows its GPUs a quarter of an hour late",
        shown="The Node is Ready long before the claim: it says ResourceNotRegistered until the GPUs are allocatable.",
        condition="Initialized",
        reason="ResourceNotRegistered",
        every=True,
        ends=True,
        lasts_seconds=SLOW_GPU_SECONDS / 2,
    ),
    "throttle": Failure(
        told="ARM answers the first three requests for an agent pool with 429 and asks to wait for 5 s",
        shown="The claim says Throttled; nothing is sent before ARM's time has passed, and then it goes on as always.",
        condition="Launched",
        reason="Throttled",
        every=False,
        ends=True,
    ),
}
