"""The results of steps: what was written and at which version, what was read, or why the step failed."""

from collections.abc import Mapping
from typing import Literal, TypeVar

import msgspec

from cloudprovider.errors import CloudError
from cloudprovider.interface import Failure
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment
from provisioner.api.workload import WorkloadPod
from provisioner.runtime.kube import KubeError
from provisioner.runtime.objects import CustomResourceDefinition

from .device_claims import DeviceClaims
from .diagnosis import Workloads
from .facts import Remedy
from .storage import Storage

Kind = Literal["claim", "node"]


class Wrote(msgspec.Struct, frozen=True, kw_only=True):
    """A successful write. `resource_version` is "" for a DELETE; it is the one before a write that removed the object.

    `claim`: the claim as answered; None if the write removed it.
    """

    kind: Kind
    name: str
    uid: str
    resource_version: str
    claim: NodeClaim | None = None


class Evicted(msgspec.Struct, frozen=True, kw_only=True):
    """The results of evictions or deletions of pods, by UID.

    `accepted`: they terminate; `gone`: no such pod; `blocked`: PodDisruptionBudgets do not
    allow it, by the API server's message; `failed`: another error, after which no further pod was evicted if the API
    server did not refuse the request itself.
    """

    accepted: frozenset[str]
    gone: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}


class ReadPool(msgspec.Struct, frozen=True, kw_only=True):
    """The pool was read; the inventory has the answer."""


class ReadCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance failed; None: no cause is available, and another read would not find one."""

    failure: Failure | None


class ReadCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The managed cluster was read; the inventory has the answer."""


class ReadCrds(msgspec.Struct, frozen=True, kw_only=True):
    """These CRDs as they are now, by name; None: it does not exist."""

    crds: Mapping[str, CustomResourceDefinition | None]


class ReadClaim(msgspec.Struct, frozen=True, kw_only=True):
    claim: NodeClaim | None


class ReadClaims(msgspec.Struct, frozen=True, kw_only=True):
    claims: tuple[NodeClaim, ...]


class DeletionPossible(msgspec.Struct, frozen=True, kw_only=True):
    """The API server would delete the claim now."""


class ReadStorage(msgspec.Struct, frozen=True, kw_only=True):
    storage: Storage


class ReadDevices(msgspec.Struct, frozen=True, kw_only=True):
    devices: DeviceClaims


class ReadNodes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: tuple[Node, ...]


class ReadEvents(msgspec.Struct, frozen=True, kw_only=True):
    """What AKS node auto-repair does to a Node; None: the API server does not allow to read Events."""

    remedies: tuple[Remedy, ...] | None


class ReadWorkloads(msgspec.Struct, frozen=True, kw_only=True):
    workloads: Workloads


class ReadFailed(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that have failed."""

    pods: tuple[WorkloadPod, ...]


class ReadPods(msgspec.Struct, frozen=True, kw_only=True):
    pods: tuple[Pod, ...]


class ReadGpuPods(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods that run on a Node request GPUs; the longest grace period of all its pods, in seconds."""

    count: int
    grace_seconds: float = 0.0


class ReadAttached(msgspec.Struct, frozen=True, kw_only=True):
    """`kept`: the PersistentVolumes bound to the step's volume claims."""

    attachments: tuple[VolumeAttachment, ...]
    kept: frozenset[str]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The cloud accepted the request; the inventory has the answer."""


class CloudFailed(msgspec.Struct, frozen=True, kw_only=True):
    error: CloudError


class KubeFailed(msgspec.Struct, frozen=True, kw_only=True):
    error: KubeError


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """Not sent: the lease expires too soon."""


ReadResult = (
    ReadPool
    | ReadCause
    | ReadCluster
    | ReadClaim
    | ReadClaims
    | DeletionPossible
    | ReadStorage
    | ReadDevices
    | ReadCrds
    | ReadNodes
    | ReadEvents
    | ReadWorkloads
    | ReadFailed
    | ReadPods
    | ReadGpuPods
    | ReadAttached
)
Result = Wrote | Evicted | ReadResult | Accepted | CloudFailed | KubeFailed | Fenced


R = TypeVar("R", bound=ReadResult)


def answer(result: Result, kind: type[R]) -> R:
    """The answer of a read, which is of this kind. Raises the KubeError of one that failed."""
    if isinstance(result, KubeFailed):
        raise result.error
    if not isinstance(result, kind):
        raise TypeError(type(result).__name__)
    return result
