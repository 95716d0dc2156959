"""The one door through which the program changes the world (its own Lease and Events aside).

Nothing is sent without a lease that outlives the request (docs/references/rules.md#leader-election); each write is one
audit line and one Event where the step carries one; a failure is an outcome, never an exception, so that the plan can
answer it.
"""

import asyncio
from collections.abc import Callable

import structlog

from cloudprovider.interface import Instance
from controllers.model.results import CloudFailed, Evicted, Fenced, Kind, KubeFailed, Result
from controllers.model.steps import (
    AskCause,
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    DeletePods,
    Event,
    EvictPods,
    LookUpClaim,
    LookUpCluster,
    LookUpCrd,
    LookUpNodes,
    LookUpPool,
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
from provisioner.api.pod import Pod
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import KubeError
from provisioner.runtime.log_sampling import AUDIT
from provisioner.runtime.objects import ObjectReference

from .cloud import CloudActuator
from .kubernetes import KubernetesActuator

# An ARM write may take 15 s (its own timeout); it is sent only if the lease outlives it.
ARM_WRITE_SECONDS = 15.0
# A hundred Nodes have thousands of pods; their Events must not crowd out those of claims and Nodes.
POD_EVENTS_LEAVE = 50

log = structlog.get_logger("door")


class Actuator:
    """`lease_left` says how many seconds of the lease remain (inf without election).

    `on_cut(seconds)` hears of a write that was cancelled on its way: for so long it may still be carried out.
    """

    def __init__(
        self,
        kube: KubernetesActuator,
        cloud: CloudActuator,
        events: EventRecorder,
        lease_left: Callable[[], float],
        on_cut: Callable[[float], None],
    ) -> None:
        self._kube = kube
        self._cloud = cloud
        self._events = events
        self._lease_left = lease_left
        self._on_cut = on_cut

    async def write(self, step: Write, claim: NodeClaim | None) -> Result:
        """Perform one write for the key of `claim` (None: the key has no claim)."""
        at_cloud = isinstance(step, CreateInstance | DeleteInstance)
        if self._lease_left() <= (ARM_WRITE_SECONDS if at_cloud else 0.0):
            log.warning("not sent: too little is left of the lease", step=type(step).__name__)
            return Fenced()
        if isinstance(step, CreateInstance) and step.event is not None:
            self.record_event(step.claim, step.event)  # that it is tried is worth telling, whatever the answer
        try:
            outcome = await self._send(step)
        except KubeError as error:
            say = log.warning if error.refused else log.info  # a conflict is daily life, a missing permission is not
            say("refused by the API server", step=type(step).__name__, error=str(error))
            return KubeFailed(error=error)
        except asyncio.CancelledError:
            self._on_cut(ARM_WRITE_SECONDS)
            raise
        log.info(AUDIT, step=type(step).__name__, outcome=type(outcome).__name__, **_subject(step))
        if not isinstance(outcome, CloudFailed):
            self._record(step, claim)
        if isinstance(outcome, Evicted) and isinstance(step, EvictPods | DeletePods):
            self._record_departures(step, outcome)
        return outcome

    async def _send(self, step: Write) -> Result:
        if isinstance(step, CreateInstance | DeleteInstance):
            return await self._cloud.write(step)
        return await self._kube.write(step)

    async def read(self, step: Read) -> Result:
        """Perform one fresh read."""
        try:
            match step:
                case LookUpPool():
                    return await self._cloud.look_up(step)
                case AskCause():
                    return await self._cloud.ask_cause(step)
                case LookUpCluster():
                    return await self._cloud.look_up_cluster()
                case LookUpCrd():
                    return await self._kube.read_crd()
                case LookUpClaim():
                    return await self._kube.read_claim(step)
                case LookUpNodes():
                    return await self._kube.read_nodes(step)
                case ReadRemedies():
                    return await self._kube.read_remedies(step)
                case ReadDrain():
                    return await self._kube.read_pods(step)
                case ReadVolumes():
                    return await self._kube.read_volumes(step)
        except KubeError as error:
            return KubeFailed(error=error)

    async def current_version(self, kind: Kind, name: str, uid: str) -> str:
        """The version the API server has of this object now; "" if it is gone. Raises KubeError."""
        return await self._kube.current_version(kind, name, uid)

    def record_event(self, about: NodeClaim | Node | Pod | Instance, event: Event) -> bool:
        """Record an Event that belongs to no write; of an instance, on the claim that it was made for.

        False if it was dropped for there being too many.
        """
        subject = _former_claim(about) if isinstance(about, Instance) else about
        leaving = POD_EVENTS_LEAVE if isinstance(about, Pod) else 0
        return self._events.record(subject, event.type, event.reason, event.message, reserve=leaving)

    def _record(self, step: Write, claim: NodeClaim | None) -> None:
        events: tuple[Event, ...] = ()
        about: NodeClaim | Instance | None = claim
        match step:
            case PatchStatus(claim=target, events=told):
                about, events = target, told
            case DeleteClaim(claim=target, event=event):
                about, events = target, (event,)
            case DeleteInstance(instance=instance, event=event) if event is not None:
                about, events = claim or instance, (event,)
            case _:
                return
        if about is not None:
            for event in events:
                self.record_event(about, event)

    def _record_departures(self, step: EvictPods | DeletePods, outcome: Evicted) -> None:
        for pod in step.pods:
            if pod.metadata.uid not in outcome.accepted:
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
    """The claim whose mark the pool bears, which need not be there any more: people look for its Events by name."""
    blank = NodeClaim()
    uid = instance.claim_uid or instance.label_uid
    return ObjectReference(
        api_version=blank.api_version, kind=blank.kind, name=instance.claim_name or instance.name, uid=uid
    )


def _subject(step: Write) -> dict[str, str]:
    """What a write is about, for the audit line."""
    match step:
        case CreateInstance(claim=claim, name=name):
            return {"pool": name, "claim_uid": claim.uid}
        case DeleteInstance(instance=instance, cause=cause):
            return {"pool": instance.name, "claim_uid": instance.claim_uid, "etag": instance.etag, "cause": cause}
        case DeleteClaim(claim=claim, cause=cause):
            return {"claim": claim.name, "claim_uid": claim.uid, "cause": cause}
        case _:
            return {"why": why} if (why := getattr(step, "why", "")) else {}
