"""The extended resource of a Node: a state machine of the kubelet's device manager and the device plugin.

Pure. Each state has (capacity, allocatable):

    absent    the plugin never registered                           no resource on the Node
    serving   the plugin serves                                     N, N minus unhealthy devices
    stopped   the plugin stopped less than 5 min ago                N, 0
    empty     stopped for longer, or the kubelet restarted without  0, 0

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from dataclasses import dataclass, replace
from typing import Literal

from provisioner.simulator.azure import sizes
from provisioner.simulator.azure.agentpool import Pool

State = Literal["absent", "serving", "stopped", "empty"]
RESOURCES = {sizes.NVIDIA: "nvidia.com/gpu", sizes.AMD: "amd.com/gpu"}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """`resource` is "" on a machine without whole GPUs, which never reports any."""

    resource: str
    count: int
    unhealthy: int = 0
    state: State = "absent"

    @property
    def report(self) -> tuple[int, int] | None:
        """(capacity, allocatable), or None while the resource is not on the Node."""
        if not self.resource or self.state == "absent":
            return None
        if self.state == "serving":
            return self.count, max(0, self.count - self.unhealthy)
        return (self.count, 0) if self.state == "stopped" else (0, 0)

    def served(self) -> "Devices":
        """The plugin registered."""
        return replace(self, state="serving")

    def stopped(self) -> "Devices":
        """The plugin stopped; its devices stay as unhealthy for a grace period."""
        return replace(self, state="stopped") if self.state == "serving" else self

    def expired(self) -> "Devices":
        """The grace period is over; no effect if the plugin registered again."""
        return replace(self, state="empty") if self.state == "stopped" else self

    def restarted(self) -> "Devices":
        """The kubelet restarted and waits for the plugin to register again."""
        return self if self.state == "absent" else replace(self, state="empty")


def devices_of(pool: Pool, fraction_gpus: int) -> Devices:
    """The devices of a machine of this pool; `fraction_gpus`: the count on a size with a part of a GPU."""
    size = sizes.find(pool.size) or sizes.Size()
    count = sizes.advertised(size, str(pool.properties.get("gpuInstanceProfile") or ""), fraction_gpus)
    return Devices(resource=RESOURCES[size.vendor] if count else "", count=count)
