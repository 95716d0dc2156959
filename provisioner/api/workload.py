"""DaemonSets and Jobs: what their pods request, and what tells why a pod does not run on a Node.

The spec of a template has more fields than that of a pod: which program a container runs, on which folders of the Node,
decides whether a DaemonSet offers GPUs. Of pods nothing reads them, so they are not decoded from each pod. Undeclared
fields are dropped when decoding.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/,
docs/references/kubernetes.md#device-plugins-in-a-cluster.
"""

from enum import StrEnum

from .meta import ObjectMeta, Struct, TemplateMetadata, condition_of
from .pod import Container, PodCondition, PodSpec, Volume


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


class TemplateContainer(Container, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()


class HostPath(Struct, frozen=True, kw_only=True):
    path: str = ""


class TemplateVolume(Volume, frozen=True, kw_only=True):
    host_path: HostPath | None = None


class TemplateSpec(PodSpec, frozen=True, kw_only=True):
    containers: tuple[TemplateContainer, ...] = ()
    volumes: tuple[TemplateVolume, ...] = ()


class PodTemplate(Struct, frozen=True, kw_only=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


class DaemonSetSpec(Struct, frozen=True, kw_only=True):
    template: PodTemplate = PodTemplate()


class DaemonSetStatus(Struct, frozen=True, kw_only=True):
    """Pods by state: wanted, of the newest revision, and Ready. Zero everywhere: the status is not known."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Struct, frozen=True, kw_only=True, weakref=True):
    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct, frozen=True, kw_only=True):
    template: PodTemplate = PodTemplate()
    suspend: bool = False


class JobStatus(Struct, frozen=True, kw_only=True):
    """`active`: pods that have not ended; `ready` of them are Ready."""

    active: int = 0
    ready: int = 0
    conditions: tuple[PodCondition, ...] = ()


class Job(Struct, frozen=True, kw_only=True):
    api_version: str = "batch/v1"
    kind: str = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def ended(self) -> bool:
        """Whether it is complete or has failed."""
        return any(condition_of(self.status.conditions, kind, "True") for kind in ("Complete", "Failed"))


Workload = DaemonSet | Job
