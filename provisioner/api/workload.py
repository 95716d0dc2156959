"""The fields of DaemonSets, Jobs and pods that tell why a pod does not run on a Node; others are dropped when decoding.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/,
docs/references/kubernetes.md#device-plugins-in-a-cluster.
"""

from collections.abc import Mapping
from enum import StrEnum

from .meta import EMPTY, ObjectMeta, Struct, Time
from .pod import Toleration
from .schedulable import Affinity


class Cause(StrEnum):
    """Who is at fault. A metric label. The last two concern the machine itself, unless the diagnosis says otherwise.

    A DRA driver is meant by "plugin" as well, on Nodes whose GPUs it publishes.
    """

    MISCONFIGURED = "Misconfigured"  # all devices work, and the node class or the plugin's DaemonSet states others
    PLUGIN_ABSENT = "PluginAbsent"  # no DaemonSet in the cluster is a device plugin for this resource
    PLUGIN_KEPT_AWAY = "PluginKeptAway"  # a taint, selector or affinity keeps its pods off this Node
    PLUGIN_NOT_SCHEDULED = "PluginNotScheduled"  # its pod fits, but none is on the Node
    PLUGIN_FAILING = "PluginFailing"  # its pod does not run
    NOT_PUBLISHED = "NotPublished"  # the pod of a DRA driver runs, without all ResourceSlices or with other devices
    NO_DEVICES = "NoDevices"  # its pod runs and offers no device
    PARTIAL_DEVICES = "PartialDevices"  # its pod runs and offers fewer devices than the size has


class EnvVar(Struct, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""


class HostPath(Struct, frozen=True, kw_only=True):
    path: str = ""


class WorkloadVolume(Struct, frozen=True, kw_only=True):
    name: str = ""
    host_path: HostPath | None = None


class WorkloadContainer(Struct, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()


class WorkloadPodSpec(Struct, frozen=True, kw_only=True):
    node_name: str = ""
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_network: bool = False
    containers: tuple[WorkloadContainer, ...] = ()
    volumes: tuple[WorkloadVolume, ...] = ()


class ContainerWaiting(Struct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class ContainerTerminated(Struct, frozen=True, kw_only=True):
    reason: str = ""
    exit_code: int = 0


class ContainerRunning(Struct, frozen=True, kw_only=True):
    started_at: Time | None = None


class ContainerState(Struct, frozen=True, kw_only=True):
    """At most one member is set; none: the container waits for an unknown reason."""

    running: ContainerRunning | None = None
    waiting: ContainerWaiting | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, kw_only=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class WorkloadPodCondition(Struct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class WorkloadPodStatus(Struct, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: Time | None = None
    conditions: tuple[WorkloadPodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class WorkloadPod(Struct, frozen=True, kw_only=True):
    """A pod of a DaemonSet or Job."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadPodSpec = WorkloadPodSpec()
    status: WorkloadPodStatus = WorkloadPodStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class WorkloadTemplate(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadPodSpec = WorkloadPodSpec()


class DaemonSetSpec(Struct, frozen=True, kw_only=True):
    template: WorkloadTemplate = WorkloadTemplate()


class DaemonSetStatus(Struct, frozen=True, kw_only=True):
    """Pods by state: wanted, of the newest revision, and Ready. Zero everywhere: the status is not known."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSetWorkload(Struct, frozen=True, kw_only=True, weakref=True):
    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct, frozen=True, kw_only=True):
    template: WorkloadTemplate = WorkloadTemplate()
    suspend: bool = False


class JobStatus(Struct, frozen=True, kw_only=True):
    """`active`: pods that have not ended; `ready` of them are Ready."""

    active: int = 0
    ready: int = 0
    completion_time: Time | None = None
    conditions: tuple[WorkloadPodCondition, ...] = ()


class Job(Struct, frozen=True, kw_only=True):
    api_version: str = "batch/v1"
    kind: str = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def ended(self) -> bool:
        """Whether it is complete or has failed."""
        return any(one.type in ("Complete", "Failed") and one.status == "True" for one in self.status.conditions)


Workload = DaemonSetWorkload | Job
