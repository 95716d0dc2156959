"""The unhappy stories of `try --fail`: what Azure does wrong, and what to look at.

Promise: each is a fault of the simulated Azure or of its machines, never a change to the controller.
"""

from collections.abc import Callable
from dataclasses import dataclass

from provisioner.simulator.azure import faults
from provisioner.simulator.world import World

SLOW_GPU_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """`cause` arranges it; `told` is what a person sees, `ends` whether the claim gets Ready in the end."""

    cause: Callable[[World], None]
    told: str
    ends: bool


def _quota(world: World) -> None:
    world.cloud.faults.append(faults.quota_preflight())


def _capacity(world: World) -> None:
    world.cloud.faults.append(faults.capacity("AllocationFailed", times=2))


def _slow_gpu(world: World) -> None:
    world.nodes.plugin_delay_seconds = SLOW_GPU_SECONDS


def _throttle(world: World) -> None:
    world.cloud.faults.append(faults.throttled(seconds=5, times=3))


FAILURES = {
    "quota": Failure(cause=_quota, told="the subscription has no cores left for this family of sizes", ends=False),
    "capacity": Failure(
        cause=_capacity, told="Azure accepts the pool and then finds no machine for it, twice", ends=True
    ),
    "slow-gpu": Failure(cause=_slow_gpu, told="the device plugin shows its GPUs a quarter of an hour late", ends=True),
    "throttle": Failure(cause=_throttle, told="ARM answers 429 and asks to wait, three times", ends=True),
}
