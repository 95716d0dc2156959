"""The devices that drivers publish for one Node, and which of them can be used. Pure.

Only the slices with the highest generation of a pool count, and only once all of them are there: a driver that restarts
writes a new generation slice by slice.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Container, Iterable

import msgspec

from provisioner.api.meta import Taint
from provisioner.api.resourceslice import (
    HEALTH_TAINTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    Device,
    ResourceSlice,
    is_whole_gpu,
)
from provisioner.vendors import BY_DRIVER


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of one driver at its highest generation: `slices` of `expected` have been published.

    `devices` are those of an incomplete pool as well. A pool with two devices of one name cannot be allocated from.
    """

    driver: str
    name: str
    slices: int
    expected: int
    devices: tuple[Device, ...]

    @property
    def complete(self) -> bool:
        """Whether all devices of the pool are known."""
        names = {one.name for one in self.devices}
        return self.slices == self.expected > 0 and len(names) == len(self.devices)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The names of its whole GPUs that pods can use; none of an incomplete pool."""
        return tuple(one.name for one in self.whole_gpus if not lost_by(one))

    @property
    def usable(self) -> tuple[str, ...]:
        """The names of its devices that pods can use: of a driver of GPUs, whole GPUs."""
        if self.driver in BY_DRIVER or not self.complete:
            return self.gpus
        return tuple(one.name for one in self.devices if not lost_by(one))

    @property
    def whole_gpus(self) -> tuple[Device, ...]:
        """Its whole GPUs, usable or not; none of an incomplete pool."""
        return tuple(one for one in self.devices if is_whole_gpu(one, self.driver)) if self.complete else ()

    def free_gpus(self, allocated: Container[str]) -> tuple[str, ...]:
        """The names of its whole GPUs that can be allocated now. `allocated`: the devices of the pool that are.

        A whole GPU consumes all counters that it shares with its partitions: one of these suffices to exclude it.
        A taint excludes it for all pods, although a request may tolerate it.
        """
        taken = {one.counter_set for device in self.devices if device.name in allocated for one in device.counters}
        return tuple(
            one.name
            for one in self.whole_gpus
            if one.name not in allocated
            and not any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) for taint in one.taints)
            and taken.isdisjoint(own.counter_set for own in one.counters)
        )

    @property
    def others(self) -> tuple[Device, ...]:
        """Devices that stand in the place of whole GPUs: static partitions, or GPUs for virtual machines.

        Partitions that share counters with their GPU are published beside it.
        """
        return tuple(one for one in self.devices if not is_whole_gpu(one, self.driver) and not one.counters)


def lost_by(device: Device) -> tuple[Taint, ...]:
    """The taints by which the driver takes the device out of service: it evicts the pods, or states a fault."""
    return tuple(
        taint
        for taint in device.taints
        if taint.effect == NO_EXECUTE or (taint.effect == NO_SCHEDULE and taint.key in HEALTH_TAINTS)
    )


def pools_of(slices: Iterable[ResourceSlice], driver: str) -> tuple[Pool, ...]:
    """The pools of one driver on a Node; `slices`: all of that Node, of any driver and generation."""
    newest: dict[str, list[ResourceSlice]] = {}
    for one in slices:
        if one.spec.driver != driver:
            continue
        known = newest.setdefault(one.spec.pool.name, [])
        generation = known[0].spec.pool.generation if known else one.spec.pool.generation
        if one.spec.pool.generation > generation:
            known.clear()
        if one.spec.pool.generation >= generation:
            known.append(one)
    return tuple(
        Pool(
            driver=driver,
            name=name,
            slices=len(found),
            expected=found[0].spec.pool.resource_slice_count,
            devices=tuple(device for one in found for device in one.spec.devices),
        )
        for name, found in sorted(newest.items())
    )


def gpus_of(pools: Iterable[Pool]) -> int:
    """How many whole GPUs of these pools pods can use."""
    return sum(len(pool.gpus) for pool in pools)
