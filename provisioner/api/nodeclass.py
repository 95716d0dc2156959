"""The AgentPoolNodeClass (`gpu-provisioner.sh/v1alpha1`): properties of the agent pools of NodeClaims that refer to it.

Most fields are those of an AKS agent pool; the others say how its GPUs are offered, and what a new Node waits for.
Absent fields have the defaults of the CRD, or are left to AKS.

Source: docs/references/agent-pools.md#request-body.
"""

from collections.abc import Mapping

import msgspec

from . import labels
from .meta import EMPTY, Condition, ObjectMeta, Struct
from .nodeclaim import NodeClassReference
from .readiness import ReadinessRule

# The names of AKS; Ubuntu and AzureLinux select the version that AKS recommends.
IMAGE_FAMILIES = ("Ubuntu", "AzureLinux", "Ubuntu2204", "Ubuntu2404", "AzureLinux3")
MIG_PROFILES = ("MIG1g", "MIG2g", "MIG3g", "MIG4g", "MIG7g")
MIG_STRATEGIES = ("Single", "Mixed")
GPU_MODES = ("DevicePlugin", "DRA")
# The names under which a device plugin offers shared GPUs (docs/references/kubernetes.md#gpu-resource-names).
SHARED_RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
SHARED_REPLICAS = (1, 64)
DISK_FLOOR_GIB, DISK_CEILING_GIB = 30, 2048
MAX_PODS = (10, 250)
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
    shared_resource: str = "nvidia.com/gpu"


class SpotSettings(Struct, frozen=True, kw_only=True):
    """`max_price` in US dollars an hour; -1 is the on-demand price."""

    eviction_policy: str = "Delete"
    max_price: str = "-1"


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


class NodeClassStatus(Struct, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class AgentPoolNodeClass(Struct, frozen=True, kw_only=True):
    api_version: str = f"{labels.OWN_DOMAIN}/v1alpha1"
    kind: str = labels.NODECLASS_KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClassSpec = NodeClassSpec()
    status: NodeClassStatus = NodeClassStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type."""
        return next((one for one in self.status.conditions if one.type == kind), None)


def is_own(reference: NodeClassReference) -> bool:
    """Whether the reference names an AgentPoolNodeClass, so that this controller serves the object that has it."""
    return reference.group == labels.OWN_DOMAIN and reference.kind == labels.NODECLASS_KIND
