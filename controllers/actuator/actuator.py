"""Performs steps: the writes about NodeClaims, Nodes, pods and agent pools, and the fresh reads of plans.

Writes pass the fence of the client (`Kube.fenced`) or of the cloud's actuator. Each write has one line at level DEBUG,
and the Events of its step. What the cloud answers to a failed request is a result, which the plan handles.
"""

import msgspec
import structlog

from cloudprovider.interface import Instance
from controllers.model.crd_deletion import crds_of
from controllers.model.results import (
    CloudFailed,
    Evicted,
    ReadClaim,
    ReadCrds,
    ReadEvents,
    ReadNodes,
    ReadPods,
    ReadResult,
    ReadWorkloads,
    WriteResult,
)
from controllers.model.steps import (
    AskCause,
    CountGpuPods,
    CreateClaim,
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    DeletePods,
    Event,
    EvictPods,
    LookUpClaim,
    LookUpCluster,
    LookUpCrds,
    LookUpNodes,
    LookUpPool,
    LookUpWorkloads,
    PatchClaim,
    PatchNode,
    PatchStatus,
    Read,
    ReadDrain,
    ReadRemedies,
    ReadVolumes,
    Write,
)
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import KubeError
from provisioner.runtime.objects import ObjectReference

from .cloud import CloudActuator
from .kubernetes import KubernetesActuator
from .reads import KubernetesReads

# How many Events the recorder keeps free for claims and Nodes: a drain of many Nodes has thousands of pods.
POD_EVENTS_LEAVE = 50

log = structlog.get_logger("actuator")


class Actuator:
    """Performs the steps of all controllers but those of NodePools, node classes, NVSentinel and GKM.

    `reads`: fresh reads of other decisions than the plan of one key.
    """

    def __init__(
        self, kube: KubernetesActuator, reads: KubernetesReads, cloud: CloudActuator, events: EventRecorder
    ) -> None:
        self._kube = kube
        self.reads = reads
        self._cloud = cloud
        self._events = events

    async def write(self, step: Write, claim: NodeClaim | None) -> WriteResult:
        """Perform one write for the key of `claim` (None: the key has no claim). Raises KubeError and LeaseExpires."""
        try:
            result = await self._send(step)
        except KubeError as error:
            record = log.warning if error.refused else log.debug  # conflicts are normal
            record("the API server refused a write", step=type(step).__name__, error=str(error))
            if error.refused and isinstance(step, PatchClaim) and step.overdue:
                # The deadline has passed all the same. The record is tried again, and the message may change meanwhile.
                for event in step.events:
                    self.record_event(step.claim, msgspec.structs.replace(event, apart_seconds=event.repeat_seconds))
            raise
        log.debug("wrote", step=type(step).__name__, outcome=type(result).__name__, **_subject(step))
        # That of a creation is recorded whatever the answer is.
        if not isinstance(result, CloudFailed) or isinstance(step, CreateInstance):
            self._record(step, claim)
        if isinstance(result, Evicted) and isinstance(step, EvictPods | DeletePods):
            self._record_evictions(step, result)
        return result

    async def _send(self, step: Write) -> WriteResult:
        if isinstance(step, CreateInstance | DeleteInstance):
            return await self._cloud.write(step)
        return await self._kube.write(step)

    async def read(self, step: Read) -> ReadResult | CloudFailed:
        """Perform the fresh read that a plan needs. Raises KubeError."""
        match step:
            case LookUpPool():
                return await self._cloud.look_up(step)
            case AskCause():
                return await self._cloud.ask_cause(step)
            case LookUpCluster():
                return await self._cloud.look_up_cluster()
            case LookUpCrds(claim=claim):
                return ReadCrds(crds=await self.reads.crds(crds_of(claim)))
            case LookUpClaim(name=name):
                return ReadClaim(claim=await self.reads.claim(name))
            case LookUpNodes(pool=pool):
                return ReadNodes(nodes=await self.reads.nodes(pool))
            case LookUpWorkloads():
                return ReadWorkloads(workloads=await self.reads.workloads(step))
            case ReadRemedies(node=node):
                return ReadEvents(remedies=await self.reads.remedies(node))
            case ReadDrain():
                return await self._read_drain(step)
            case CountGpuPods(node=node):
                return await self.reads.gpu_pods(node)
            case ReadVolumes():
                return await self.reads.volumes(step)

    async def _read_drain(self, step: ReadDrain) -> ReadPods:
        pods = await self.reads.pods(step.node)
        if not step.attachments or any(pod.metadata.daemon_set is None for pod in pods):
            return ReadPods(pods=pods)
        # After the pods: one that is not among them cannot have attached anything since.
        try:
            return ReadPods(pods=pods, attachments=await self.reads.attachments(step.node))
        except KubeError:
            return ReadPods(pods=pods)  # they are read again after the drain, which reports the error

    def record_event(self, about: NodeClaim | NodePool | Node | Pod | Instance, event: Event) -> bool:
        """Record an Event; one about an instance is recorded on the claim that the instance was created for.

        False if the recorder dropped it, or recorded it shortly before.
        """
        subject = _former_claim(about) if isinstance(about, Instance) else about
        leaving = POD_EVENTS_LEAVE if isinstance(about, Pod) else 0
        return self._events.record(subject, event, reserve=leaving)

    def recorded_at(self, about: Pod, event: Event) -> float:
        """The loop time at which this Event was recorded last; -inf if it was not, or long ago."""
        return self._events.recorded_at(about, event)

    def _record(self, step: Write, claim: NodeClaim | None) -> None:
        events: tuple[Event, ...] = ()
        about: NodeClaim | Instance | None = claim
        match step:
            case PatchStatus(claim=target, events=found) | PatchClaim(claim=target, events=found):
                about, events = target, found
            case DeleteClaim(claim=target, event=event):
                about, events = target, (event,)
            case PatchNode(event=event) if event is not None:
                events = (event,)
            case CreateInstance(claim=target, event=event) if event is not None:
                about, events = target, (event,)
            case DeleteInstance(instance=instance, event=event) if event is not None:
                about, events = claim or instance, (event,)
            case _:
                return
        if about is not None:
            for event in events:
                self.record_event(about, event)

    def _record_evictions(self, step: EvictPods | DeletePods, result: Evicted) -> None:
        for pod in step.pods:
            if pod.metadata.uid not in result.accepted:
                continue
            if isinstance(step, EvictPods):
                self.record_event(
                    pod,
                    Event(
                        type="Normal",
                        reason=reasons.EVICTED,
                        message=f"Evicted pod: Node {step.node.name} is being removed",
                    ),
                )
            else:
                message = (
                    f"Force-deleted with {step.grace_seconds} s of grace, bypassing PodDisruptionBudgets:"
                    f" termination grace period of Node {step.node.name} expired"
                )
                self.record_event(pod, Event(type="Normal", reason=reasons.DISRUPTED, message=message))


def _former_claim(instance: Instance) -> ObjectReference:
    """The claim by the pool's tags. It may no longer exist; its Events can still be found by name."""
    blank = NodeClaim()
    uid = instance.claim_uid or instance.label_uid
    return ObjectReference(
        api_version=blank.api_version, kind=blank.kind, name=instance.claim_name or instance.name, uid=uid
    )


def _subject(step: Write) -> dict[str, str]:
    """The subject of a write, for the audit line."""
    match step:
        case CreateInstance(claim=claim, name=name):
            return {"pool": name, "claim_uid": claim.uid}
        case DeleteInstance(instance=instance, go=go):
            subject = {"pool": instance.name, "claim_uid": instance.claim_uid, "etag": instance.etag}
            return {**subject, "cause": go.cause, "gate": go.why}
        case CreateClaim(name=name):
            return {"claim": name}
        case DeleteClaim(claim=claim, go=go):
            return {"claim": claim.name, "claim_uid": claim.uid, "cause": go.cause, "gate": go.why}
        case _:
            return {"why": why} if (why := getattr(step, "why", "")) else {}
