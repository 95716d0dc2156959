"""Deletes the NodeClaims of machines that are disrupted; the rest is the ordinary removal.

The pods of a machine are listed from the API server right before: one that the decision did not see keeps the machine.
"""

from collections.abc import Callable

import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.machine import Machine
from controllers.model.results import ReadPods, answer
from controllers.model.steps import Cause, DeleteClaim, Event, ReadDrain
from controllers.node.termination.pod_predicates import is_daemon_pod, is_waiting_eviction
from controllers.nodepool.budgets import Reason
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock

from .claim_deletion import Deletion, delete_claim
from .machines import Machines
from .provisioner import DemandCaches

CAUSES: dict[Reason, Cause] = {"Empty": "empty", "Drifted": "drifted", "Underutilized": "underutilized"}

log = structlog.get_logger("disruption")


class Removals:
    """`disrupted(claim, cause)`: metrics of removals."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        disrupted: Callable[[NodeClaim, str], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._machines = machines
        self._disrupted = disrupted
        self._clock = clock

    async def is_used(self, machine: Machine) -> bool:
        """Whether a list of the pods of the machine, made now, shows one that the cache lacks. Raises KubeError."""
        if machine.node is None:
            return False
        listed = answer(await self._actuator.read(ReadDrain(node=machine.node)), ReadPods)
        known, now = {pod.metadata.uid for pod in machine.pods}, self._clock.now()
        using = (pod for pod in listed.pods if is_waiting_eviction(pod, now) and not is_daemon_pod(pod))
        if all(pod.metadata.uid in known for pod in using):
            return False
        log.warning("the cache lacks pods of a machine; it is kept", Node={"name": machine.node.name})
        self._machines.pods_seen(machine.node.name)
        self._caches.pods.invalidate()
        return True

    async def delete(self, claim: NodeClaim, reason: Reason) -> Deletion:
        """Delete the NodeClaim. Raises KubeError for a request that can succeed when it is repeated."""
        event = _event(f"Disrupting NodeClaim: {reason}")
        deletion = await delete_claim(self._actuator, DeleteClaim(claim=claim, cause=CAUSES[reason], event=event))
        if deletion is Deletion.DELETED:
            self._disrupted(claim, CAUSES[reason])
            node = self._caches.nodes.get(claim.status.node_name) if claim.status.node_name else None
            if node is not None:
                self._actuator.record_event(node, _event(f"Disrupting Node: {reason}"))
        return deletion


def _event(message: str) -> Event:
    return Event(type="Normal", reason=reasons.DISRUPTION_TERMINATING, message=message)
