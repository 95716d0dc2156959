"""The closed set of steps, as frozen values: every write of the program, and every fresh read.

A plan returns exactly one step, and only the actuator performs steps. A write has the object as the plan saw it, so
that the request can be conditional on it.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from cloudprovider.interface import Instance, Offering
from controllers.gate.gate import Go
from provisioner.api.causes import Cause, EventType, RemovalBlocker
from provisioner.api.meta import EMPTY, Condition
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.pod import Pod

from .diagnosis import PodName

JsonPatch = tuple[Mapping[str, object], ...]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes Event, recorded once the step that has it succeeded; see `EventContent`.

    `repeat_seconds` of what lasts: Karpenter's two minutes, or the time after which the API server deletes the Event.
    """

    type: EventType
    reason: str
    message: str
    repeat_seconds: float = 0.0
    apart_seconds: float = 0.0


class AddFinalizer(msgspec.Struct, frozen=True, kw_only=True):
    """Adds our finalizer, and these labels in the same patch."""

    claim: NodeClaim
    labels: Mapping[str, str] = EMPTY


class CreateInstance(msgspec.Struct, frozen=True, kw_only=True):
    """`offering` None: the claim's requirements cannot be met, which the provider rejects with the reason.

    `node_class` None: the claim refers to another kind of node class, whose defaults apply.
    """

    claim: NodeClaim
    name: str
    offering: Offering | None = None
    node_class: AgentPoolNodeClass | None = None
    event: Event | None = None


class DeleteInstance(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `controllers.model.deletion` only. `go`: the gate's answer."""

    instance: Instance
    go: Go
    event: Event | None = None

    @property
    def cause(self) -> Cause:
        """Why the instance is deleted."""
        return self.go.cause


class PatchClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Sets labels and annotations of the claim; the latter only if the claim has not changed. None removes one.

    `overdue`: the names of the deadlines that are recorded as passed.
    """

    claim: NodeClaim
    labels: Mapping[str, str | None] = EMPTY
    annotations: Mapping[str, str | None] = EMPTY
    events: tuple[Event, ...] = ()
    overdue: tuple[str, ...] = ()


class PatchNode(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON patch in which each replacement of a list follows a `test` of that list. `event`: about the claim."""

    node: Node
    patch: JsonPatch
    why: str
    event: Event | None = None


class PatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The claim's whole condition list and our scalar status fields, in one merge patch."""

    claim: NodeClaim
    conditions: tuple[Condition, ...]
    fields: Mapping[str, str]
    events: tuple[Event, ...] = ()


class DeleteNode(msgspec.Struct, frozen=True, kw_only=True):
    node: Node
    cause: Cause


class EvictPods(msgspec.Struct, frozen=True, kw_only=True):
    """Evicts each of these pods, by UID."""

    node: Node
    pods: tuple[Pod, ...]


class DeletePods(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes pods past the termination grace period, bypassing PodDisruptionBudgets, with `grace_seconds` from now."""

    node: Node
    pods: tuple[Pod, ...]
    grace_seconds: int


class RestartPluginPod(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes this pod of a device plugin, which its DaemonSet then creates again."""

    node: Node
    pod: PodName


class ReleaseFinalizer(msgspec.Struct, frozen=True, kw_only=True):
    target: NodeClaim | Node
    why: str


class DeleteClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `controllers.model.deletion` only. `go`: the gate's answer."""

    claim: NodeClaim
    go: Go
    event: Event

    @property
    def cause(self) -> Cause:
        """Why the claim is deleted."""
        return self.go.cause


class CreateClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Creates a NodeClaim, in wire names. It fails if the name exists, also in another process's view."""

    name: str
    manifest: Mapping[str, object]


class LookUpPool(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh GET of the pool, by name."""

    name: str


class AskCause(msgspec.Struct, frozen=True, kw_only=True):
    """One read of why this instance failed, from the operation of its PUT."""

    instance: Instance


class LookUpClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh GET of the claim, by name: `name` need not be in the cache."""

    name: str


class LookUpNodes(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh LIST of the Nodes that carry this pool's label."""

    pool: str


class LookUpCluster(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh GET of the managed cluster."""


class LookUpCrds(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh read of each CRD whose deletion deletes this claim, which is deleting."""

    claim: NodeClaim


class ReadRemedies(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh LIST of the Events of AKS node auto-repair about this Node."""

    node: Node


class LookUpWorkloads(msgspec.Struct, frozen=True, kw_only=True):
    """One LIST of the pods on this Node, and what is known of the DaemonSets of the cluster.

    `source`: the DRA driver, or the extended resource, whose GPUs the Node lacks; `since` when that began.
    """

    node: Node
    source: str
    since: datetime


class ReadDrain(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh LIST of the pods bound to this Node.

    `attachments`: then one of its VolumeAttachments, if DaemonSets own all pods.
    """

    node: Node
    attachments: bool = False


class CountGpuPods(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh LIST of the pods bound to this Node, to count those with GPUs."""

    node: Node


class ReadVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh LIST of the Node's VolumeAttachments, and a GET of each of these volume claims (`namespace/name`)."""

    node: Node
    claims: tuple[str, ...]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """No step before `after` seconds have passed (None: before an object changes).

    `blocked_by`: a removal by inference is due, and blocked by this.
    """

    after: float | None
    why: str
    blocked_by: RemovalBlocker | None = None


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """No object of this key is left; its memory is dropped."""


CloudWrite = CreateInstance | DeleteInstance
KubeWrite = (
    AddFinalizer
    | PatchClaim
    | PatchNode
    | PatchStatus
    | DeleteNode
    | EvictPods
    | DeletePods
    | RestartPluginPod
    | ReleaseFinalizer
    | DeleteClaim
    | CreateClaim
)
Write = CloudWrite | KubeWrite
CloudRead = LookUpPool | AskCause | LookUpCluster
KubeRead = (
    LookUpClaim | LookUpCrds | LookUpNodes | LookUpWorkloads | ReadRemedies | ReadDrain | CountGpuPods | ReadVolumes
)
Read = CloudRead | KubeRead
Step = Write | Read | Wait | Forget
