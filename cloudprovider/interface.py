"""What the rules may ask of a cloud, and what it answers.

Six calls, no waiting on operations, no retries hidden inside; each call is one request (LIST: one a page).
All names are pool names, which is also the controllers' key. Ages are in seconds, times are loop times
(`asyncio` loop clock, seconds) or wall times (aware datetimes in UTC), as the field says.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from provisioner.api.nodeclaim import NodeClaim

from .errors import Scope

NO_LABELS: Mapping[str, str] = {}


CapacityType = Literal["on-demand", "spot"]
ON_DEMAND: CapacityType = "on-demand"
SPOT: CapacityType = "spot"


class Offering(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a machine can be had as: its size, where, and on which terms. `zone` "" is wherever the region has room."""

    size: str
    zone: str = ""
    capacity_type: CapacityType = ON_DEMAND

    def __str__(self) -> str:
        where = f" in zone {self.zone}" if self.zone else ""
        return f"{self.size}{where}" + (" (spot)" if self.capacity_type == SPOT else "")


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a VM size: `count` devices of the extended resource `resource`. `known` is False without data."""

    resource: str = ""
    count: int = 0
    known: bool = True


class InstanceState(StrEnum):
    """Every provisioning state of the cloud maps to one of four; an unknown one maps to CREATING and is counted."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"
    FAILED = "failed"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why the cloud gave up on an instance: kept with it, so that it survives our restarts.

    `kind` is that of the CloudError it would have been, `scope` what it is about, `after` seconds to leave it alone.
    """

    reason: str
    message: str
    code: str = ""
    kind: str = "retryable"
    scope: Scope = "size"
    after: float | None = None


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One agent pool of one machine, as the cloud last described it.

    `claim_uid`/`claim_name` are our ownership tags, `label_uid` the node label with the UID (either marks it ours);
    `created_label` is Azure/gpu-provisioner's creation stamp; `put_time` our own time of PUT, in UTC.
    `failure` None of a FAILED one: it does not say why. `unknown_state`: the cloud's word for the state is new to us.
    `busy`: the cloud works on the pool, or stopped it.
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
        """What was asked for. A pool over several zones was not made by us; its first one stands for them."""
        kind: CapacityType = SPOT if self.priority == "Spot" else ON_DEMAND
        return Offering(size=self.size, zone=self.zones[0] if self.zones else "", capacity_type=kind)

    @property
    def busy(self) -> bool:
        """Whether the cloud itself is changing or has stopped the pool, so that a missing Node means nothing."""
        return self.raw_state in BUSY_STATES or self.power_state == "Stopped"


BUSY_STATES = frozenset(
    {"Updating", "Upgrading", "UpgradingNodeImageVersion", "Scaling", "Starting", "Stopping", "Stopped"}
)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The managed cluster. Inferred removals wait unless it is `running`.

    `max_pools` and `max_nodes` are AKS's own bounds; None: none is known.
    """

    running: bool
    state: str = "Succeeded"
    power_state: str = "Running"
    max_pools: int = 100
    max_nodes: int | None = None
    location: str = ""


NextPage = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Nothing stands before the next page."""


class CloudProvider(Protocol):
    """One cloud. Every call may raise a `CloudError` and nothing else (cancellation passes)."""

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        """Ask for an instance, once, never over an existing one (`If-None-Match: *`); returns at acceptance.

        `offering` is one of those that the claim allows; None is the first of them.

        Raises Retryable(conflict=True) if the name is taken or another operation runs; Rejected(final=True) without
        any request if the claim's spec cannot be expressed.
        """

    async def get(self, name: str) -> Instance:
        """One fresh read. Raises NotFound only if the answer proves that this pool is absent."""

    async def list(self, *, next_page: NextPage = at_once) -> list[Instance]:
        """All agent pools of the cluster, ours or not; a partial answer is an error, never a short list.

        Each page is a request of its own: `next_page` is awaited before every one but the first.
        """

    async def delete(self, instance: Instance) -> None:
        """Ask for the removal of exactly this instance (`If-Match` its ETag); returns at acceptance.

        Raises NotFound if it was already absent, Retryable(conflict=True) if it changed since or is being worked on.
        """

    async def cause(self, instance: Instance) -> Failure | None:
        """Why this instance, which does not say it itself, failed: asked once of whatever made it.

        None: nobody tells, or nobody is known (any longer) who could.
        """

    async def cluster(self) -> Cluster:
        """The managed cluster's state."""

    async def close(self) -> None:
        """Release connections and credentials."""
