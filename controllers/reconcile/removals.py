"""Deletes the NodeClaims of machines that are disrupted; the rest is the ordinary removal.

The pods of a machine are listed from the API server right before: one that the decision did not see keeps the machine.
"""

import asyncio
import math
from collections.abc import Callable

import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.candidates import price_of
from controllers.disruption.machine import Machine
from controllers.gate.gate import Evidence
from controllers.model.steps import Event
from controllers.node.termination.pod_predicates import is_waiting_eviction
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.price_messages import usd_per_hour
from provisioner.api.causes import CAUSE_OF, CAUSES, Cause, Reason
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import why_foreign
from provisioner.runtime.clock import Clock

from .claim_deletion import Deletion, delete_claim, try_deletion
from .demand_caches import DemandCaches
from .machines import Machines

# A list of pods is fresh for so long: several machines of a command are listed one after the other.
FRESH_SECONDS = 30.0

log = structlog.get_logger("disruption")


class Removals:
    """`instance_types`: by whose prices Events state what a machine costs; None while they are unknown.

    `disrupted(claim, cause)`: metrics of removals.
    """

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        instance_types: Callable[[], InstanceTypes | None],
        disrupted: Callable[[NodeClaim, Cause], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._machines = machines
        self._instance_types = instance_types
        self._disrupted = disrupted
        self._clock = clock
        # When the pods of a machine were listed last, by the UID of its NodeClaim (loop times).
        self._listed: dict[str, float] = {}

    async def is_used(self, machine: Machine) -> bool:
        """Whether a list of the pods of the machine, made now, shows one that the cache lacks. Raises KubeError."""
        began = _now()
        if machine.node is None:
            self._listed[machine.claim.uid] = began
            return False
        listed = await self._actuator.reads.pods(machine.node)
        known, now = {pod.metadata.uid for pod in machine.pods}, self._clock.now()
        using = (pod for pod in listed if is_waiting_eviction(pod, now) and pod.metadata.daemon_set is None)
        if all(pod.metadata.uid in known for pod in using):
            self._listed = {uid: at for uid, at in self._listed.items() if began - at <= FRESH_SECONDS}
            self._listed[machine.claim.uid] = began
            return False
        log.warning("the cache lacks pods of a machine; it is kept", Node={"name": machine.node.name})
        self._machines.pods_seen(machine.node.name)
        self._caches.pods.invalidate()
        return True

    async def would_delete(self, claim: NodeClaim) -> Deletion:
        """What would become of a deletion, before anything is bought for it. A refusal counts as one of the deletion.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        deletion = await try_deletion(self._actuator, claim)
        if deletion is Deletion.REFUSED:
            self._machines.refused(claim)
        return deletion

    async def delete(self, claim: NodeClaim, reason: Reason) -> Deletion:
        """Delete the NodeClaim. Raises KubeError for a request that can succeed when it is repeated."""
        cause = CAUSE_OF[reason]
        listed = _now() - self._listed.pop(claim.uid, -math.inf) <= FRESH_SECONDS
        evidence = Evidence(
            cause=cause,
            uid=claim.uid,
            ours=not why_foreign(claim),
            seen=not self._machines.unwanted(claim, reason) if listed else None,
            blocked=self._machines.protected(claim, reason),
            # The callers have found a place for each pod, in the step of the event loop before that list.
            place="Ready",
        )
        why = f"{reason}{self._cost(claim)}"
        deletion = await delete_claim(self._actuator, claim, evidence, f"Disrupting NodeClaim: {why}")
        if deletion is Deletion.REFUSED:
            self._machines.refused(claim)
        if deletion is Deletion.DELETED:
            self._disrupted(claim, cause)
            if (node := self._caches.node_of(claim)) is not None:
                row, message = CAUSES[cause], f"Disrupting Node: {why}"
                self._actuator.record_event(node, Event(type=row.event_type, reason=row.event, message=message))
        return deletion

    def _cost(self, claim: NodeClaim) -> str:
        """What its machine costs, as a part of a message; "" if that is not known."""
        types = self._instance_types()
        if types is None:
            return ""
        try:
            return f" ({usd_per_hour(price_of(self._machines.machine(claim), types))})"
        except ValueError:
            return ""


def _now() -> float:
    return asyncio.get_running_loop().time()
