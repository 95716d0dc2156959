"""Devices that a DRA driver publishes."""

from typing import Any

from cloudprovider.interface import Gpus
from controllers.model.facts import Facts
from provisioner.api.meta import ObjectMeta, Taint
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings, NodeClassSpec
from provisioner.api.resourceslice import Device, DeviceAttribute, DevicePool, ResourceSlice, ResourceSliceSpec
from tests.unit.builders import NODE, claim, facts, instance, node

NVIDIA = "gpu.nvidia.com"
LOST = Taint(key="unhealthy", effect="NoExecute")
BUSY = Taint(key="busy", effect="NoSchedule")
# Of NVIDIA's driver: a fatal Xid and that of an application, a GPU that does not answer, one that is not monitored.
XID, OF_APPLICATION = (Taint(key="gpu.nvidia.com/xid", value="79", effect=one) for one in ("NoSchedule", "None"))
OF_DRA = AgentPoolNodeClass(spec=NodeClassSpec(gpu=GpuSettings(mode="DRA")))


def device(name: str, kind: str | None = "gpu", *taints: Taint) -> Device:
    attributes = {"type": DeviceAttribute(string=kind)} if kind else {}
    return Device(name=name, attributes=attributes, taints=taints)


def some(count: int, kind: str | None = "gpu", *taints: Taint, first: int = 0) -> tuple[Device, ...]:
    return tuple(device(f"gpu-{number}", kind, *taints) for number in range(first, first + count))


def published(
    *devices: Device, of: int = 1, generation: int = 1, pool: str = NODE, driver: str = NVIDIA, on: str = NODE
) -> ResourceSlice:
    """One of `of` slices."""
    spec = ResourceSliceSpec(
        driver=driver,
        node_name=on,
        pool=DevicePool(name=pool, generation=generation, resource_slice_count=of),
        devices=devices,
    )
    return ResourceSlice(metadata=ObjectMeta(name="s"), spec=spec)


def of_dra(*slices: ResourceSlice, **fields: Any) -> Facts:
    """A registered, Ready Node with eight GPUs that a driver must publish."""
    made = {"claims": (claim(up=("Launched", "Registered")),), "nodes": (node(gpus="0", initialized=False),), **fields}
    return facts(
        gpus=Gpus(resource="nvidia.com/gpu", count=8),
        node_class=OF_DRA,
        node_class_known=True,
        instance=instance(),
        **{"slices": slices, **made},
    )
