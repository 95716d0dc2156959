"""A running machine, and the durations of its steps. Values only.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager,
docs/references/kubernetes.md#node-lifecycle.
"""

from dataclasses import dataclass

from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.settings import Range

from .device_plugin import Devices


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """Durations in simulated seconds.

    `initialize_seconds`: from registration to the node manager's part; `ready_seconds`: to Ready; `gpu_seconds`: from
    Ready to the plugin's GPUs; `status_seconds`: how long values are stale after a kubelet restart;
    `endpoint_stop_seconds`: the kubelet's endpointStopGracePeriod. `reregister`: a deleted Node is created again.
    """

    initialize_seconds: Range = (1.0, 4.0)
    ready_seconds: Range = (10.0, 40.0)
    gpu_seconds: Range = (20.0, 60.0)
    status_seconds: Range = (0.0, 10.0)
    endpoint_stop_seconds: float = 300.0
    reboot_seconds: Range = (60.0, 150.0)
    unresponsive_seconds: float = 40.0
    node_manager_seconds: float = 5.0
    pod_start_seconds: float = 2.0
    pod_stop_seconds: float = 1.0
    orphan_pod_seconds: float = 40.0
    reregister: bool = False


@dataclass(kw_only=True)
class Machine:
    """`answers`: its kubelet runs and reaches the API server; `starts`: the number of starts of the kubelet."""

    name: str
    pool: Pool
    instance: int
    devices: Devices
    boot_id: str
    answers: bool = False
    starts: int = 1
    plugin_stops: int = 0
