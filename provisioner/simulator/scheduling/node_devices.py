"""The devices of one Node that kube-scheduler can allocate: those of complete pools at their highest generation.

A device with a taint is allocated to a request that tolerates it, and one that consumes counters while enough is left
of them.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal

from provisioner.simulator.kube.objects import Json
from provisioner.simulator.kube.store import Store

from .requests import quantity

SLICES = "resourceslices.resource.k8s.io"

# Driver, pool and device.
Place = tuple[str, str, str]
# Driver, pool, set and counter.
CounterName = tuple[str, str, str, str]


class NodeDevices:
    """The devices of a Node by their place."""

    def __init__(self, store: Store, node: str) -> None:
        self.devices: dict[Place, Json] = {}
        self._counters: dict[CounterName, Decimal] = {}
        pools: dict[tuple[str, str], list[Json]] = {}
        for one in store.each(SLICES):
            spec = one["spec"]
            if spec.get("nodeName") == node:
                pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
        for (driver, pool), specs in sorted(pools.items()):
            newest = max(spec["pool"]["generation"] for spec in specs)
            kept = [spec for spec in specs if spec["pool"]["generation"] == newest]
            if len(kept) == kept[0]["pool"]["resourceSliceCount"]:
                self._add(driver, pool, kept)

    def is_free(self, place: Place, wanted: Json, taken: Iterable[Place]) -> bool:
        """Whether a request can get this device while those of `taken` are allocated."""
        others = [one for one in taken if one in self.devices]
        if place in others or not _tolerated(self.devices[place], wanted.get("tolerations") or ()):
            return False
        used: Counter[CounterName] = Counter()
        for one in (place, *others):
            used.update(dict(_consumed(one, self.devices[one])))
        needed = dict(_consumed(place, self.devices[place]))
        return all(used[name] <= self._counters.get(name, Decimal(0)) for name in needed)

    def _add(self, driver: str, pool: str, specs: list[Json]) -> None:
        for spec in specs:
            for device in spec.get("devices") or ():
                self.devices[driver, pool, device["name"]] = device
            for one in spec.get("sharedCounters") or ():
                for name, counter in one["counters"].items():
                    self._counters[driver, pool, one["name"], name] = quantity(counter["value"])


def _consumed(place: Place, device: Json) -> Iterator[tuple[CounterName, Decimal]]:
    driver, pool, _ = place
    for one in device.get("consumesCounters") or ():
        for name, counter in one["counters"].items():
            yield (driver, pool, one["counterSet"], name), quantity(counter["value"])


def _tolerated(device: Json, tolerations: Iterable[Json]) -> bool:
    held = [taint for taint in device.get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    return all(any(_matches(one, taint) for one in tolerations) for taint in held)


def _matches(toleration: Json, taint: Json) -> bool:
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")
