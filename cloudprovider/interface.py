"""The CloudProvider protocol and its values: instances, offerings, the managed cluster.

Calls do not wait for operations and do not retry; each call is one request (LIST: one per page). Names are pool names,
which are also the keys of the controllers. Ages are in seconds; times are loop times (`asyncio` loop clock, seconds) or
wall times (aware datetimes in UTC), as the field states.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from provisioner.api import labels as api_labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass

from .errors import Scope

NO_LABELS: Mapping[str, str] = {}
CapacityType = Literal["on-demand", "spot"]
ON_DEMAND: CapacityType = "on-demand"
SPOT: CapacityType = "spot"


class Offering(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A VM size, a zone and a capacity type. `zone` "" lets Azure choose a zone."""

    size: str
    zone: str = ""
    capacity_type: CapacityType = ON_DEMAND

    def __str__(self) -> str:
        where = f" in zone {self.zone}" if self.zone else ""
        return f"{self.size}{where}" + (" (spot)" if self.capacity_type == SPOT else "")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage and limit of a quota, in vCPUs."""

    limit: int
    used: int

    @property
    def left(self) -> int:
        """The vCPUs that can still be used; negative if the limit was lowered."""
        return self.limit - self.used


class QuotaLeft(msgspec.Struct, frozen=True, kw_only=True):
    """What machines may still use of a quota, in vCPUs. `text`: its name, limit and usage. `remedy`: what to do."""

    left: int
    text: str
    remedy: str


class ResourceSku(msgspec.Struct, frozen=True, kw_only=True):
    """A VM size in a location. `restricted`: the reason if this subscription cannot use it; `zones_restricted`: zones
    that it cannot use. `spot`: whether spot machines of the size exist. `ephemeral`: whether its OS disk can be
    ephemeral, None if that is not known; `temp_gib`, `cache_gib` and `nvme_gib`: its local disks.
    """

    name: str
    family: str
    vcpus: int
    zones: tuple[str, ...] = ()
    restricted: str = ""
    zones_restricted: tuple[str, ...] = ()
    spot: bool = True
    ephemeral: bool | None = None
    temp_gib: int = 0
    cache_gib: int = 0
    nvme_gib: int = 0


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a VM size: `count` devices of the extended resource `resource`. `known` is False without data.

    `model` includes the memory, "" if it is not known. `slices`: the MIG profiles that the size supports, such as
    MIG1g, with the name of a slice, such as 1g.10gb.
    """

    resource: str = ""
    model: str = ""
    count: int = 0
    known: bool = True
    slices: Mapping[str, str] = NO_LABELS


class InstanceState(StrEnum):
    """The state of an instance. An unknown provisioning state maps to CREATING and is counted in a metric."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"
    FAILED = "failed"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance failed. It is read from the instance, so that it survives a restart.

    `kind` is the one of the corresponding CloudError, `scope` is what lacks capacity, `after` is the delay in seconds
    before a retry.
    """

    reason: str
    message: str
    code: str = ""
    kind: str = "retryable"
    scope: Scope = "size"
    after: float | None = None


class OfferingQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The quota that limits an offering, in vCPUs; `failure` is the error of a request that exceeds it.

    `text`: its name, limit, usage, and what a machine needs.
    """

    left: int
    needed: int
    text: str
    failure: Failure

    @property
    def sufficient(self) -> bool:
        """Whether one more machine fits."""
        return self.left >= self.needed


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An agent pool of one machine.

    `claim_uid` and `claim_name` are the ownership tags, `label_uid` is the node label with the UID; either marks the
    pool as owned. `created_label` is the creation label of Azure/gpu-provisioner, `put_time` is the tag with the time
    of the PUT, in UTC. `failure` is None if a FAILED pool has no error. `unknown_state`: `raw_state` is not in the
    table.
    """

    name: str
    state: InstanceState
    raw_state: str = ""
    etag: str = ""
    size: str = ""
    zones: tuple[str, ...] = ()
    priority: str = "Regular"
    mode: str = "User"
    count: int = 1
    image_version: str = ""
    kubernetes_version: str = ""
    power_state: str = "Running"
    labels: Mapping[str, str] = NO_LABELS
    tags: Mapping[str, str] = NO_LABELS
    claim_uid: str = ""
    claim_name: str = ""
    label_uid: str = ""
    created_label: str = ""
    put_time: datetime | None = None
    failure: Failure | None = None
    unknown_state: bool = False

    @property
    def offering(self) -> Offering:
        """The offering of the pool; of several zones (a pool of another tool) the first."""
        kind: CapacityType = SPOT if self.priority == "Spot" else ON_DEMAND
        return Offering(size=self.size, zone=self.zones[0] if self.zones else "", capacity_type=kind)

    @property
    def marks(self) -> frozenset[str]:
        """The claim UIDs written on it."""
        return frozenset(uid for uid in (self.claim_uid, self.label_uid) if uid)

    @property
    def made_by_predecessor(self) -> bool:
        """Whether Azure/gpu-provisioner created it: it sets these labels on each, and creates no system pool."""
        return self.mode != "System" and all(key in self.labels for key in OF_PREDECESSOR)

    @property
    def foreign(self) -> bool:
        """Whether neither this controller nor its predecessor created it: it is never written to."""
        return not self.marks and not self.made_by_predecessor

    @property
    def busy(self) -> bool:
        """Whether Azure changes or has stopped the pool, so that its Node may be missing."""
        return self.raw_state in BUSY_STATES or self.power_state == "Stopped"


OF_PREDECESSOR = (api_labels.KAITO_CREATION_TIMESTAMP, api_labels.KAITO_MACHINE_TYPE, api_labels.NODEPOOL)
BUSY_STATES = frozenset(
    {"Updating", "Upgrading", "UpgradingNodeImageVersion", "Scaling", "Starting", "Stopping", "Stopped"}
)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The managed cluster. Inferred removals wait unless it is `running`.

    `max_pools` and `max_nodes` are limits of AKS; None if there is none. `kubernetes_version` is that of the control
    plane. `max_pods`: of the Nodes of an agent pool that does not state it. `node_resource_group`: the ARM id,
    in lower case, of the resource group of its machines; "" if unknown.
    """

    running: bool
    state: str = "Succeeded"
    power_state: str = "Running"
    max_pools: int = 100
    max_nodes: int | None = None
    location: str = ""
    kubernetes_version: str = ""
    max_pods: int = 110
    node_resource_group: str = ""


class Identity(StrEnum):
    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"


def identify(of_nodes: Collection[str], of_cluster: str) -> Identity:
    """Whether the API server is that of the managed cluster, by the resource groups of its Nodes' machines.

    The settings name the managed cluster, and values are copied between clusters. AKS creates all machines of a cluster
    in its node resource group, and the providerID of a Node names the resource group of its machine. One Node in that
    group proves that both are the same; Nodes of other resource groups and none in that one prove that they are not.
    Nodes without a machine of the cloud prove nothing. `of_cluster`: "" if it is not known yet.

    Source: docs/references/agent-pools.md#names-and-ids.
    """
    if of_cluster in of_nodes:
        return Identity.SAME
    return Identity.OTHER if of_cluster and of_nodes else Identity.UNKNOWN


class Newest(msgspec.Struct, frozen=True):
    """A version that new machines get, and since when this process knows it (wall time)."""

    version: str
    since: datetime


def image_kind(image: str) -> str:
    """The name of a node image without its release: AKSUbuntu-2204gen2containerd of …-202405.03.0."""
    return image.rpartition("-")[0]


BeforePage = Callable[[], Awaitable[None]]


async def immediately() -> None:
    """Request the next page without a delay."""


class CloudProvider(Protocol):
    """A cloud. Calls raise only `CloudError` (and pass cancellation on)."""

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        """Request an instance, never over an existing one (`If-None-Match: *`); returns when the PUT is accepted.

        `offering` is one of those that the claim allows; None means the first. `node_class` is the one that the claim
        refers to; None if that is of another kind.

        Raises Retryable(conflict=True) if the name is taken or another operation runs, and Rejected(final=True),
        without a request, if the spec of the claim is invalid.
        """

    async def get(self, name: str) -> Instance:
        """One GET. Raises NotFound only if the response proves that this pool is absent."""

    async def list(self, *, before_page: BeforePage = immediately) -> list[Instance]:
        """All agent pools of the cluster, owned or not. A partial response raises an error.

        `before_page` is awaited before the request of each page but the first.
        """

    async def delete(self, instance: Instance) -> None:
        """Request the deletion of exactly this instance (`If-Match` with its ETag); returns when it is accepted.

        Raises NotFound if it is already absent, Retryable(conflict=True) if it has changed or another operation runs.
        """

    async def cause(self, instance: Instance) -> Failure | None:
        """Why an instance without a `failure` failed: one GET of the operation that created it.

        None if the operation is unknown (for example after a restart) or has no error.
        """

    async def cluster(self) -> Cluster:
        """The state of the managed cluster."""

    async def usages(self) -> Mapping[str, Usage]:
        """The usage of the quotas of the cluster's location, by name in lower case without spaces.

        Raises Retryable with status 403 if the identity must not read it.
        """

    async def skus(self) -> Mapping[str, ResourceSku]:
        """The known VM sizes that the cluster's location offers, by name in lower case.

        Raises Retryable with status 403 if the identity must not read them.
        """

    async def latest_image(self, name: str) -> str:
        """The newest node image for this agent pool, "" if the cloud names none.

        Raises Retryable with status 403 if the identity must not read it.
        """

    async def close(self) -> None:
        """Release connections and credentials."""
