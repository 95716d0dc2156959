"""A running machine, and the durations of its steps. Values only.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager,
docs/references/kubernetes.md#node-lifecycle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.settings import Range

from .device_plugin import Devices


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """Durations in simulated seconds.

    `initialize_seconds`: from registration to the node manager's part; `ready_seconds`: to Ready; `gpu_seconds`: from
    Ready to the plugin's GPUs on the Node; `sync_seconds`: between two updates of a Node's status. `status_seconds`:
    how long a kubelet restart takes, while values are stale; from its end, `first_status_seconds` until the first
    update, and `register_seconds` until a running plugin has registered. `endpoint_stop_seconds`: the kubelet's
    endpointStopGracePeriod. `reregister`: a deleted Node is created again.

    `dra_labels`: machines whose agent pool has these labels have a DRA driver instead of a device plugin; None: no
    machine has. `slice_seconds`: between the writes of two ResourceSlices; `wiping_seconds`: until the kubelet deletes
    those of a driver that is gone. `device_health`: what the driver does about GPUs that fail: nothing ("off", NVIDIA's
    default), it taints each ("xid"), or also all GPUs of the Node when one is lost, until it restarts ("lost").

    How Nodes differ from what AKS documents: `allocatable_shares`, by size ("": any other) and resource, of what a Node
    of this kind has offered; `aks_labels`, which each Node has besides; `agent_taints` (`key=value:Effect`), with which
    a Node registers until an agent on it removes them, `agent_seconds` after the registration.

    `taint_evictions`: pods that do not tolerate a NoExecute taint of their Node are deleted.
    """

    initialize_seconds: Range = (1.0, 4.0)
    ready_seconds: Range = (10.0, 40.0)
    gpu_seconds: Range = (20.0, 60.0)
    sync_seconds: float = 10.0
    status_seconds: Range = (0.0, 10.0)
    first_status_seconds: Range = (0.0, 0.2)
    register_seconds: float = 0.1
    endpoint_stop_seconds: float = 300.0
    reboot_seconds: Range = (60.0, 150.0)
    unresponsive_seconds: float = 40.0
    node_manager_seconds: float = 5.0
    pod_start_seconds: float = 2.0
    pod_stop_seconds: float = 1.0
    orphan_pod_seconds: float = 40.0
    reregister: bool = False
    dra_labels: Mapping[str, str] | None = None
    slice_seconds: float = 1.0
    wiping_seconds: float = 30.0
    device_health: Literal["off", "xid", "lost"] = "xid"
    allocatable_shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    aks_labels: Mapping[str, str] = field(default_factory=dict)
    agent_taints: tuple[str, ...] = ()
    agent_seconds: Range = (0.0, 0.0)
    taint_evictions: bool = False


@dataclass(kw_only=True)
class Machine:
    """`answers`: its kubelet runs and reaches the API server; `starts`: the number of starts of the kubelet.

    `plugin`: "starting" until the Node is Ready and `gpu_seconds` later, then "running"; "stopped" until the machine
    reboots; "dead" for good. `synced_at`: when the kubelet first updated the Node's status.
    `lost_gpus`: GPUs that the machine does not have until it reboots; `unanswered_gpus`: those that its DRA driver
    publishes nevertheless until it starts again. `driver_runs`: a DRA driver is registered;
    `generation`: of its last publication.
    """

    name: str
    pool: Pool
    instance: int
    devices: Devices
    boot_id: str
    answers: bool = False
    starts: int = 1
    plugin: Literal["starting", "running", "stopped", "dead"] = "starting"
    plugin_stops: int = 0
    synced_at: float = 0.0
    sync_due: bool = False
    lost_gpus: int = 0
    unanswered_gpus: int = 0
    driver_runs: bool = False
    generation: int = 0
