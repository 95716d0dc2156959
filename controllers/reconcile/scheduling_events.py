"""The Events about pods that a scheduling decision concerns, without repetition.

Source: docs/references/karpenter.md#events.
"""

from collections.abc import Iterable, Mapping

from controllers.actuator.actuator import Actuator
from controllers.model.steps import Event
from controllers.provisioning.cluster import ClusterSnapshot
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.model import Decision
from provisioner.api import reasons

# The same message about the same pod is recorded again after so long.
NOMINATED_SECONDS = 120.0
FAILED_SECONDS = 300.0


class SchedulingEvents:
    """Remembers the last Event of each pending pod."""

    def __init__(self, actuator: Actuator) -> None:
        self._actuator = actuator
        self._recorded: dict[str, tuple[str, float]] = {}

    def record(
        self,
        pods: Iterable[CachedPod],
        found: ClusterSnapshot,
        decision: Decision,
        created: Mapping[str, str],
        now: float,
    ) -> None:
        """Record the Events of one decision. `created`: the new NodeClaim of each pod that has one."""
        places = {
            name: found.places.get(node, f"node/{node}") for node, names in decision.existing.items() for name in names
        }
        unusable = "".join(f"; NodePool {name} is not used: {why}" for name, why in sorted(found.unusable.items()))
        errors = {**found.errors, **{name: why + unusable for name, why in decision.errors.items()}}
        recorded: dict[str, tuple[str, float]] = {}
        for pod in pods:
            place = f"nodeclaim/{created[pod.name]}" if pod.name in created else places.get(pod.name, "")
            if place:
                event = Event(type="Normal", reason=reasons.NOMINATED, message=f"Pod should schedule on: {place}")
                seconds = NOMINATED_SECONDS
            elif pod.name in errors:
                message = f"Failed to schedule pod, {errors[pod.name]}"
                event = Event(type="Warning", reason=reasons.FAILED_SCHEDULING, message=message)
                seconds = FAILED_SECONDS
            else:
                continue
            message, at = self._recorded.get(pod.metadata.uid, ("", 0.0))
            if message == event.message and now - at < seconds:
                recorded[pod.metadata.uid] = message, at
            elif self._actuator.record_event(pod, event):
                recorded[pod.metadata.uid] = event.message, now
        self._recorded = recorded
