"""The devices that drivers publish for one Node, and which of them can be used. Pure.

Only the slices with the highest generation of a pool count, and only once all of them are there: a driver that restarts
writes a new generation slice by slice.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Iterable

import msgspec

from provisioner.api.resourceslice import NO_EXECUTE, Device, ResourceSlice, is_whole_gpu


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
        if not self.complete:
            return ()
        return tuple(one.name for one in self.devices if is_whole_gpu(one, self.driver) and not is_lost(one))


def is_lost(device: Device) -> bool:
    """Whether the driver, or an administrator, took the device out of service: its pods are evicted."""
    return any(taint.effect == NO_EXECUTE for taint in device.taints)


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
