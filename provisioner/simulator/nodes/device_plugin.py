"""What a Node reports of its GPUs: kubelet's device manager and the device plugin, as a state machine.

Pure. Each event of the table gives the next state, each state gives (capacity, allocatable):

    absent    the plugin never registered                       the resource is not on the Node
    serving   the plugin serves                                 N, N minus unhealthy devices
    stopped   the plugin died less than 5 min ago               N, 0
    empty     dead for longer, or kubelet restarted without it  0, 0

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from dataclasses import dataclass, replace
from typing import Literal

from provisioner.simulator.azure import sizes
from provisioner.simulator.azure.agentpool import Pool

Phase = Literal["absent", "serving", "stopped", "empty"]
RESOURCES = {sizes.NVIDIA: "nvidia.com/gpu", sizes.AMD: "amd.com/gpu"}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """`resource` is "" on a machine without whole GPUs, which then never reports any."""

    resource: str
    count: int
    unhealthy: int = 0
    phase: Phase = "absent"

    @property
    def report(self) -> tuple[int, int] | None:
        """(capacity, allocatable), or None while the Node does not mention the resource."""
        if not self.resource or self.phase == "absent":
            return None
        if self.phase == "serving":
            return self.count, max(0, self.count - self.unhealthy)
        return (self.count, 0) if self.phase == "stopped" else (0, 0)

    def served(self) -> "Devices":
        """The plugin is there (again)."""
        return replace(self, phase="serving")

    def stopped(self) -> "Devices":
        """The plugin died; its devices are kept as unhealthy for a while."""
        return replace(self, phase="stopped") if self.phase == "serving" else self

    def forgotten(self) -> "Devices":
        """The while is over; nothing happens if the plugin has come back."""
        return replace(self, phase="empty") if self.phase == "stopped" else self

    def restarted(self) -> "Devices":
        """Kubelet itself restarted and waits for the plugin to register again."""
        return self if self.phase == "absent" else replace(self, phase="empty")


def devices_of(pool: Pool, fraction_gpus: int) -> Devices:
    """What the plugin will find on a machine of this pool; `fraction_gpus`: on one with a part of a GPU."""
    size = sizes.find(pool.size) or sizes.Size()
    count = sizes.advertised(size, str(pool.properties.get("gpuInstanceProfile") or ""), fraction_gpus)
    return Devices(resource=RESOURCES[size.vendor] if count else "", count=count)
