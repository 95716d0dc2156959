"""The extended resource of a Node: a state machine of the kubelet's device manager and the device plugin.

Pure. Each state has (capacity, allocatable):

    absent    the plugin never registered                                   no resource on the Node
    serving   the plugin serves                                             N, N minus unhealthy devices
    stopped   the plugin stopped less than 5 min ago                        N, 0
    waiting   the kubelet restarted and waits for the plugin, up to 5 min   0, 0
    removed   the plugin has not come back for 5 min                        0, 0

An unhealthy device stays unhealthy until the plugin starts again, which it also does for a restarted kubelet.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from dataclasses import dataclass, replace
from typing import Literal

from provisioner.simulator.azure import sizes
from provisioner.simulator.azure.agentpool import Pool

State = Literal["absent", "serving", "stopped", "waiting", "removed"]
RESOURCES = {sizes.NVIDIA: "nvidia.com/gpu", sizes.AMD: "amd.com/gpu"}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """`resource` is "" on a machine without whole GPUs, which never reports any."""

    resource: str
    count: int
    unhealthy: int = 0
    state: State = "absent"

    @property
    def healthy(self) -> int:
        """How many devices can be given to containers."""
        return max(0, self.count - self.unhealthy) if self.state == "serving" else 0

    @property
    def registered(self) -> bool:
        """Whether the device manager knows the resource."""
        return bool(self.resource) and self.state not in ("absent", "removed")

    @property
    def report(self) -> tuple[int, int] | None:
        """(capacity, allocatable), or None while the resource is not on the Node."""
        if not self.resource or self.state == "absent":
            return None
        return (self.count if self.state in ("serving", "stopped") else 0), self.healthy

    def served(self) -> "Devices":
        """The plugin started and registered; all its devices are healthy."""
        return replace(self, state="serving", unhealthy=0)

    def failed(self, count: int) -> "Devices":
        """So many devices in all are unhealthy; those that were stay so."""
        return replace(self, unhealthy=max(self.unhealthy, count))

    def stopped(self) -> "Devices":
        """The plugin stopped; its devices stay as unhealthy for a grace period."""
        return replace(self, state="stopped") if self.state == "serving" else self

    def expired(self) -> "Devices":
        """The grace period is over; no effect if the plugin registered again."""
        return replace(self, state="removed") if self.state in ("stopped", "waiting") else self

    def restarted(self) -> "Devices":
        """The kubelet restarted: it waits for the resources of its checkpoint to register again."""
        return replace(self, state="waiting") if self.registered else self

    def inherited(self) -> "Devices":
        """A new machine has the Node of an old one, where a kubelet without a checkpoint resets the resource to 0."""
        return replace(self, state="removed")


def devices_of(pool: Pool, fraction_gpus: int) -> Devices:
    """The devices of a machine of this pool; `fraction_gpus`: the count on a size with a part of a GPU."""
    size = sizes.find(pool.size) or sizes.Size()
    count = sizes.advertised(size, str(pool.properties.get("gpuInstanceProfile") or ""), fraction_gpus)
    return Devices(resource=RESOURCES[size.vendor] if count else "", count=count)
