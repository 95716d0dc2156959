"""The Events about pods that a scheduling decision concerns, without repetition.

The recorder drops what is beyond its rate. What no Event has stated yet comes before repetitions, and namespaces take
turns, so that the pods of one namespace, however many and however old, do not keep others from their Events.

Source: docs/references/karpenter.md#events.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

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
    """Remembers the last Event of each pending pod, and which namespace had one before which other one."""

    def __init__(self, actuator: Actuator) -> None:
        self._actuator = actuator
        self._recorded: dict[str, tuple[str, float]] = {}
        self._turns: dict[str, int] = {}
        self._count = 0

    def record(
        self,
        pods: Iterable[CachedPod],
        found: ClusterSnapshot,
        decision: Decision,
        created: Mapping[str, str],
        now: float,
    ) -> None:
        """Record the Events of one decision. `created`: the new NodeClaim of each pod that has one."""
        events = [*_events(pods, found, decision, created)]
        uids, namespaces = {pod.metadata.uid for pod, _ in events}, {pod.metadata.namespace for pod, _ in events}
        self._recorded = {uid: one for uid, one in self._recorded.items() if uid in uids}
        self._turns = {name: turn for name, turn in self._turns.items() if name in namespaces}
        for pod, event in self._in_turns([one for one in events if self._is_due(*one, now)]):
            if self._actuator.record_event(pod, event):
                self._recorded[pod.metadata.uid] = event.message, now
                self._count += 1
                self._turns[pod.metadata.namespace] = self._count

    def _is_due(self, pod: CachedPod, event: Event, now: float) -> bool:
        message, at = self._recorded.get(pod.metadata.uid, ("", 0.0))
        seconds = NOMINATED_SECONDS if event.reason == reasons.NOMINATED else FAILED_SECONDS
        return message != event.message or now - at >= seconds

    def _in_turns(self, due: Iterable[tuple[CachedPod, Event]]) -> list[tuple[CachedPod, Event]]:
        """The first one of each namespace, then the second one of each, and so on; repetitions after all others.

        Of one namespace, pods that never had an Event come first, then the oldest Event.
        """
        taken = Counter[tuple[bool, str]]()
        order = list[tuple[bool, int, int, tuple[CachedPod, Event]]]()
        for pod, event in sorted(due, key=lambda one: self._recorded.get(one[0].metadata.uid, ("", -1.0))[1]):
            namespace = pod.metadata.namespace
            repeated = self._recorded.get(pod.metadata.uid, ("", 0.0))[0] == event.message
            order.append((repeated, taken[repeated, namespace], self._turns.get(namespace, 0), (pod, event)))
            taken[repeated, namespace] += 1
        return [one for *_, one in sorted(order, key=lambda one: one[:3])]


def _events(
    pods: Iterable[CachedPod], found: ClusterSnapshot, decision: Decision, created: Mapping[str, str]
) -> Iterator[tuple[CachedPod, Event]]:
    """What the decision states of each pod."""
    places = {
        name: found.places.get(node, f"node/{node}") for node, names in decision.existing.items() for name in names
    }
    unusable = "".join(f"; NodePool {name} is not used: {why}" for name, why in sorted(found.unusable.items()))
    errors = {**found.errors, **{name: why + unusable for name, why in decision.errors.items()}}
    for pod in pods:
        note = found.notes.get(pod.name, "")
        if place := f"nodeclaim/{created[pod.name]}" if pod.name in created else places.get(pod.name, ""):
            yield pod, Event(type="Normal", reason=reasons.NOMINATED, message=f"Pod should schedule on: {place}{note}")
        elif pod.name in errors:
            message = f"Failed to schedule pod, {errors[pod.name]}{note}"
            yield pod, Event(type="Warning", reason=reasons.FAILED_SCHEDULING, message=message)
