"""How the unhappy stories of `try --fail` are arranged.

Each is a fault or a quota of the simulated Azure, or a fault of its machines; the controller is never changed.
"""

from collections.abc import Callable

from provisioner.simulator.azure import compute, faults, quota
from provisioner.simulator.world import World

from .failures import SLOW_GPU_SECONDS


def _quota(world: World) -> None:
    none = {quota.family(size): 0 for size in compute.catalogue()}
    world.cloud.configure(family_cores=none, quota_check="preflight")


def _capacity(world: World) -> None:
    world.cloud.faults.append(faults.capacity("AllocationFailed", times=1))


def _slow_gpu(world: World) -> None:
    world.nodes.plugin_delay_seconds = SLOW_GPU_SECONDS


def _throttle(world: World) -> None:
    world.cloud.faults.append(faults.throttled(seconds=5, times=3))


# By the name of the failure.
CAUSES: dict[str, Callable[[World], None]] = {
    "quota": _quota,
    "capacity": _capacity,
    "slow-gpu": _slow_gpu,
    "throttle": _throttle,
}
