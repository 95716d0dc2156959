"""The AgentPoolNodeClass (`gpu-provisioner.sh/v1alpha1`): properties of the agent pools of NodeClaims that refer to it.

Most fields are those of an AKS agent pool; the others say how its GPUs are offered, and what a new Node waits for.
Absent fields have the defaults of the CRD, or are left to AKS.

Source: docs/references/agent-pools.md#request-body.
"""

from collections.abc import Mapping

import msgspec

from provisioner.vendors import VENDORS

from . import labels
from .meta import EMPTY, ZERO_TIME, Condition, ObjectMeta, Struct, Time, condition_of
from .nodeclaim import NodeClassReference
from .readiness import ReadinessRule

# The names of AKS; Ubuntu and AzureLinux select the version that AKS recommends.
IMAGE_FAMILIES = ("Ubuntu", "AzureLinux", "Ubuntu2204", "Ubuntu2404", "AzureLinux3")
MIG_PROFILES = ("MIG1g", "MIG2g", "MIG3g", "MIG4g", "MIG7g")
MIG_STRATEGIES = ("Single", "Mixed")
GPU_MODES = ("DevicePlugin", "DRA")
# The names under which a device plugin offers shared GPUs (docs/references/kubernetes.md#gpu-resource-names).
SHARED_RESOURCES = tuple(
    name
    for vendor in VENDORS
    if vendor.division is not None
    for name in (vendor.resource, vendor.resource + vendor.division.shared_suffix)
)
SHARED_REPLICAS = (1, 64)
DISK_FLOOR_GIB, DISK_CEILING_GIB = 30, 2048
MAX_PODS = (10, 250)
REPLICA_SCHEDULES_MAX = 16
TIME_ZONE_CHARACTERS = 64
# A resource of Azure has at most 50 tags, three of which are the controller's.
TAGS_MAX = 47


class GpuSettings(Struct, frozen=True, kw_only=True):
    """How GPUs are offered to pods.

    `mode`: by a device plugin, or by a driver for dynamic resource allocation (DRA). `mig_profile` "": whole GPUs;
    `mig_strategy`: how the device plugin names their slices. `shared_replicas`: how many pods share one device.
    """

    driver: str = "Install"
    mode: str = "DevicePlugin"
    mig_profile: str = ""
    mig_strategy: str = "Single"
    shared_replicas: int = 1
    shared_resource: str = SHARED_RESOURCES[0]


class SpotSettings(Struct, frozen=True, kw_only=True):
    """`max_price` in US dollars an hour; -1 is the on-demand price."""

    eviction_policy: str = "Delete"
    max_price: str = "-1"


class ReplicaSchedule(Struct, frozen=True, kw_only=True):
    """`schedule` (cron, by the clock of `time_zone`, an IANA name) and `duration`: when it is active.

    `replicas`: at most so many NodeClaims has each static NodePool with the node class meanwhile.
    """

    schedule: str
    duration: str
    time_zone: str = "UTC"
    replicas: int = 0


class NodeClassSpec(Struct, frozen=True, kw_only=True):
    """Sizes are in GiB."""

    image_family: str = "Ubuntu"
    os_disk_size_gb: int | None = msgspec.field(default=None, name="osDiskSizeGB")
    os_disk_type: str = ""
    vnet_subnet_id: str = msgspec.field(default="", name="vnetSubnetID")
    max_pods: int | None = None
    tags: Mapping[str, str] = EMPTY
    gpu: GpuSettings = GpuSettings()
    spot: SpotSettings = SpotSettings()
    capacity_reservation_group_id: str = msgspec.field(default="", name="capacityReservationGroupID")
    readiness: tuple[ReadinessRule, ...] = ()
    replica_schedules: tuple[ReplicaSchedule, ...] = ()


class Misfit(Struct, frozen=True, kw_only=True):
    """Pods of one shape that machines of a NodePool did not take (docs/adr/0063-purchase-brake.md).

    `namespace`: theirs; `shape` "": of all shapes of the namespace; both "": of many namespaces.
    `pod`: one of them. `instance_types`: those that are not bought for them again. `pods`: the machines that were
    bought for each, digests of the UIDs of the pod and the NodeClaims. `rounds`: how often machines were bought for
    the shape with what the machines before had shown; `round_end`: when the last NodeClaim of the last round was
    created. `uncounted_until`: pods that were created before count as those in `pods`, which were too many.
    `revision`: of the NodePool and the node class, see `controllers.provisioning.brake_records`.
    """

    node_pool: str
    namespace: str = ""
    shape: str = ""
    pod: str = ""
    instance_types: tuple[str, ...] = ()
    pods: Mapping[str, tuple[str, ...]] = {}
    rounds: int = 0
    round_end: Time = ZERO_TIME
    last_time: Time = ZERO_TIME
    uncounted_until: Time = ZERO_TIME
    message: str = ""
    revision: str = ""


class ObservedType(Struct, frozen=True, kw_only=True):
    """What the newest Node of an instance type offered (docs/adr/0062-learned-machines.md).

    `before`: what the one before it offered. `revision`: of the node class.
    """

    instance_type: str
    allocatable: Mapping[str, str] = EMPTY
    before: Mapping[str, str] = EMPTY
    node_name: str = ""
    node_created: Time = ZERO_TIME
    revision: str = ""


class ObservedDaemonSet(Struct, frozen=True, kw_only=True):
    """What the newest pod of a DaemonSet requests, where its template states something else.

    `daemon_set`: as namespace/name. `template`: a digest of what the template requests.
    """

    daemon_set: str
    requests: Mapping[str, str] = EMPTY
    template: str = ""


class NodeClassStatus(Struct, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    observed_types: tuple[ObservedType, ...] = ()
    observed_daemon_sets: tuple[ObservedDaemonSet, ...] = ()


class AgentPoolNodeClass(Struct, frozen=True, kw_only=True):
    api_version: str = f"{labels.OWN_DOMAIN}/v1alpha1"
    kind: str = labels.NODECLASS_KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClassSpec = NodeClassSpec()
    status: NodeClassStatus = NodeClassStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    def condition(self, kind: str, *statuses: str) -> Condition | None:
        """The condition of this type, if it has one of these statuses (any if none is given)."""
        return condition_of(self.status.conditions, kind, *statuses)


def is_own(reference: NodeClassReference) -> bool:
    """Whether the reference names an AgentPoolNodeClass, so that this controller serves the object that has it."""
    return reference.group == labels.OWN_DOMAIN and reference.kind == labels.NODECLASS_KIND
