"""The failures that `try --fail` injects into the simulated Azure or its machines, and what is expected of each.

The controller is unchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

# Every command imports the flags of `try`, and with them this module; `run` is installed without the simulator's
# dependencies. The simulator is therefore imported only when a scenario is injected.
if TYPE_CHECKING:
    from provisioner.simulator.world import World

SLOW_GPU_SECONDS = 900.0
DELETION_ORDER: tuple[str, ...] = ("pool", "node", "claim")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`description`: the failure; `expected`: its effect on a claim; `inject`: arranges it in a world.

    An affected claim has `condition` with `reason` for at least `min_seconds` of simulated time; `every_claim` is
    affected, or at least one. `recovers`: the claim becomes Ready nevertheless. `deletion_order`: the objects of an
    affected claim, in the order in which they are deleted.
    """

    description: str
    expected: str
    inject: "Callable[[World], None]"
    condition: str
    reason: str
    every_claim: bool
    recovers: bool
    min_seconds: float = 0.0
    deletion_order: tuple[str, ...] = DELETION_ORDER


def _no_quota(world: "World") -> None:
    from provisioner.simulator.azure import compute, quota

    none = {quota.family(size): 0 for size in compute.catalogue()}
    world.cloud.configure(family_cores=none, quota_check="preflight")


def _no_capacity(world: "World") -> None:
    from provisioner.simulator.azure import faults

    world.cloud.faults.append(faults.capacity("AllocationFailed", times=1))


def _slow_device_plugin(world: "World") -> None:
    world.nodes.plugin_delay_seconds = SLOW_GPU_SECONDS


def _throttling(world: "World") -> None:
    from provisioner.simulator.azure import faults

    world.cloud.faults.append(faults.throttled(seconds=5, times=3))


SCENARIOS = {
    "quota": Scenario(
        description="the subscription has a quota of 0 cores for every size",
        expected="Launched is False with reason QuotaExceeded and a remedy; creation is retried after 30 s, 60 s, …"
        " and never succeeds. The claim is deleted at once, because it has no instance.",
        inject=_no_quota,
        condition="Launched",
        reason="QuotaExceeded",
        every_claim=True,
        recovers=False,
        deletion_order=("claim",),
    ),
    "capacity": Scenario(
        description="Azure accepts the first agent pool and then has no capacity for it",
        expected="Launched is False with reason AllocationFailed, the failed pool is deleted, and a second attempt"
        " succeeds after 30 s.",
        inject=_no_capacity,
        condition="Launched",
        reason="AllocationFailed",
        every_claim=False,
        recovers=True,
        deletion_order=("pool", *DELETION_ORDER),
    ),
    "slow-gpu": Scenario(
        description="the device plugin registers its GPUs 15 minutes late",
        expected="The Node is Ready long before the claim, whose Initialized condition has reason ResourceNotRegistered"
        " until the GPUs are allocatable.",
        inject=_slow_device_plugin,
        condition="Initialized",
        reason="ResourceNotRegistered",
        every_claim=True,
        recovers=True,
        min_seconds=SLOW_GPU_SECONDS / 2,
    ),
    "throttle": Scenario(
        description="ARM rejects the first three agent pool requests with 429 and a Retry-After of 5 s",
        expected="Launched has reason Throttled; the controller waits as long as Retry-After says, and then succeeds.",
        inject=_throttling,
        condition="Launched",
        reason="Throttled",
        every_claim=False,
        recovers=True,
    ),
}
