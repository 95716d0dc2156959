"""The kubelet plugins of a DRA driver: ResourceSlices with the GPUs of each machine that has one, in place of a plugin.

A driver publishes one pool for each Node, slice by slice; each change is a new generation, so that the pool is
incomplete meanwhile. The kubelet deletes the slices of its Node when it starts, and those of a driver that has gone
30 s ago. The garbage collector deletes them with the Node.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from functools import partial
from typing import Any

from provisioner.simulator.azure import sizes
from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduler import Scheduler

from .machine import Machine, NodeSettings

Json = dict[str, Any]

KIND = "resourceslices.resource.k8s.io"
DRIVERS = {sizes.NVIDIA: ("gpu.nvidia.com", "gpu"), sizes.AMD: ("gpu.amd.com", "amdgpu")}
# What NVIDIA's driver writes after a fatal Xid, and on all GPUs when one is lost
# (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/main/cmd/gpu-kubelet-plugin/device_health.go).
XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
LOST = {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}
# A part of the size's name, and what NVIDIA's management library reports of its GPU.
MODELS = (
    ("_T4_", "Tesla T4", "15360Mi"),
    ("ND96asr_v4", "NVIDIA A100-SXM4-40GB", "40960Mi"),
    ("ND96amsr_A100", "NVIDIA A100-SXM4-80GB", "81920Mi"),
    ("ads_A100_v4", "NVIDIA A100 80GB PCIe", "81920Mi"),
    ("ND96isr_H100", "NVIDIA H100 80GB HBM3", "81559Mi"),
    ("_H100_v5", "NVIDIA H100 NVL", "95830Mi"),
    ("_H200_", "NVIDIA H200", "143771Mi"),
)
# Devices in one slice.
PER_SLICE = 4


class DraDrivers:
    """All drivers of one cluster. A publication ends the one before it."""

    def __init__(self, store: Store, settings: NodeSettings, scheduler: Scheduler) -> None:
        self._store = store
        self._settings = settings
        self._scheduler = scheduler

    def serves(self, machine: Machine) -> bool:
        """Whether a DRA driver runs on this machine instead of a device plugin, also if all its GPUs are gone."""
        wanted = self._settings.dra_labels
        return wanted is not None and wanted.items() <= machine.pool.labels.items() and bool(machine.devices.resource)

    def publish(self, machine: Machine) -> None:
        """The driver registers, or its devices changed: it writes a new generation."""
        machine.driver_runs = True
        machine.generation += 1
        slices = self._slices(machine)
        for position, body in enumerate(slices):
            wait = position * self._settings.slice_seconds
            self._scheduler.after(wait, partial(self._write, machine, machine.generation, body))
        stale = {one["metadata"]["name"] for one in self._of(machine)} - {one["metadata"]["name"] for one in slices}
        wait = len(slices) * self._settings.slice_seconds
        self._scheduler.after(wait, partial(self._delete, machine, machine.generation, stale))

    def stop(self, machine: Machine) -> None:
        """The driver's pod is gone; the kubelet deletes its slices later."""
        machine.driver_runs = False
        machine.plugin_stops += 1
        wait = self._settings.wiping_seconds
        self._scheduler.after(wait, partial(self._wipe_if_stopped, machine, machine.plugin_stops))

    def wipe(self, machine: Machine) -> None:
        """The kubelet deletes the slices of its Node."""
        if not self.serves(machine):
            return
        machine.generation += 1
        for one in self._of(machine):
            self._store.delete(KIND, one["metadata"]["name"])

    def _wipe_if_stopped(self, machine: Machine, stops: int) -> None:
        if machine.plugin_stops == stops and not machine.driver_runs:
            self.wipe(machine)

    def _of(self, machine: Machine) -> list[Json]:
        return self._store.list(KIND, fields=f"spec.nodeName={machine.name}")

    def _write(self, machine: Machine, generation: int, body: Json) -> None:
        node = self._store.get("nodes", machine.name)
        if machine.generation != generation or not machine.driver_runs or node is None:
            return
        name = body["metadata"]["name"]
        if self._store.get(KIND, name) is not None:
            self._store.patch(KIND, name, {"spec": body["spec"]})
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": machine.name, "uid": node["metadata"]["uid"]}
        meta = {**body["metadata"], "ownerReferences": [{**owner, "controller": True}]}
        self._store.create(KIND, {**body, "metadata": meta})

    def _delete(self, machine: Machine, generation: int, names: set[str]) -> None:
        if machine.generation == generation:
            for name in sorted(names):
                self._store.delete(KIND, name)

    def _taints(self, machine: Machine, number: int) -> list[Json]:
        """The taints of the GPU of this number."""
        if self._settings.device_health == "off":
            return []
        unhealthy = [XID] if number < machine.devices.unhealthy else []
        return [*unhealthy, LOST] if machine.unanswered_gpus else unhealthy

    def _slices(self, machine: Machine) -> list[Json]:
        size = sizes.find(machine.pool.size) or sizes.Size()
        driver, kind = DRIVERS[size.vendor]
        model = next(((name, memory) for part, name, memory in MODELS if part in machine.pool.size), ("unknown", "0"))
        facts: Json = {"type": {"string": kind}, "productName": {"string": model[0]}}
        devices: list[Json] = [
            {
                "name": f"gpu-{number}",
                "attributes": {**facts, "uuid": {"string": f"GPU-{machine.boot_id[:8]}-{number}"}},
                "capacity": {"memory": {"value": model[1]}},
                **({"taints": taints} if (taints := self._taints(machine, number)) else {}),
            }
            for number in range(machine.devices.count)
        ]
        parts = [devices[at : at + PER_SLICE] for at in range(0, len(devices), PER_SLICE)] or [[]]
        pool = {"name": machine.name, "generation": machine.generation, "resourceSliceCount": len(parts)}
        return [
            {
                "metadata": {"name": f"{machine.name}-{driver}-{number}"},
                "spec": {"driver": driver, "nodeName": machine.name, "pool": pool, "devices": part},
            }
            for number, part in enumerate(parts)
        ]
