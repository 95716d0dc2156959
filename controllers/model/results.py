"""The results of steps: what was written and at which version, what was read, or why the step failed."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from cloudprovider.errors import CloudError
from cloudprovider.interface import Failure
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment
from provisioner.runtime.kube import KubeError
from provisioner.runtime.objects import CustomResourceDefinition

from .diagnosis import Workloads
from .facts import Remedy

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


class ReadNodes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: tuple[Node, ...]


class ReadEvents(msgspec.Struct, frozen=True, kw_only=True):
    """What AKS node auto-repair does to a Node; None: the API server does not allow to read Events."""

    remedies: tuple[Remedy, ...] | None


class ReadWorkloads(msgspec.Struct, frozen=True, kw_only=True):
    workloads: Workloads


class ReadPods(msgspec.Struct, frozen=True, kw_only=True):
    """`attachments`: those of the Node; None if they were not requested, or could not be read."""

    pods: tuple[Pod, ...]
    attachments: tuple[VolumeAttachment, ...] | None = None


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


ReadResult = (
    ReadPool
    | ReadCause
    | ReadCluster
    | ReadClaim
    | ReadCrds
    | ReadNodes
    | ReadEvents
    | ReadWorkloads
    | ReadPods
    | ReadGpuPods
    | ReadAttached
)
WriteResult = Wrote | Evicted | Accepted | CloudFailed
Result = WriteResult | ReadResult | KubeFailed
