"""The Events of a scheduling decision: about its pods, and about NodePools and machines that it leaves out.

The recorder drops what is beyond its rate. Of the pods, what no Event has stated yet comes before repetitions, and
namespaces take turns, so that the pods of one namespace, however many and however old, do not keep others from their
Events.

Source: docs/references/karpenter.md#events.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from controllers.actuator.actuator import Actuator
from controllers.model.steps import Event
from controllers.provisioning.cluster import ClusterSnapshot
from controllers.provisioning.launchable import Refusals
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.candidates import offers
from controllers.provisioning.solver.model import Decision
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.runtime.objects import EVENT_TTL_SECONDS

NOMINATED_SECONDS = 120.0
FAILED_SECONDS = 300.0
NO_TYPES = "NodePool requirements filtered out all compatible available instance types"


class SchedulingEvents:
    """Counts the Events, to know which pod and which namespace had one before which other one."""

    def __init__(self, actuator: Actuator) -> None:
        self._actuator = actuator
        self._pods: dict[str, int] = {}
        self._namespaces: dict[str, int] = {}
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
        self._record([*_of_pods(pods, found, decision, created)], now)

    def undecided(self, pods: Iterable[CachedPod], why: str, now: float) -> None:
        """Record why there is no decision about these pods."""
        self._record([(pod, _failed(why)) for pod in pods], now)

    def _record(self, events: Collection[tuple[CachedPod, Event]], now: float) -> None:
        uids, namespaces = {pod.metadata.uid for pod, _ in events}, {pod.metadata.namespace for pod, _ in events}
        self._pods = {uid: turn for uid, turn in self._pods.items() if uid in uids}
        self._namespaces = {name: turn for name, turn in self._namespaces.items() if name in namespaces}
        for pod, event in self._in_turns(events, now):
            if self._actuator.record_event(pod, event):
                self._count += 1
                self._pods[pod.metadata.uid] = self._namespaces[pod.metadata.namespace] = self._count

    def _in_turns(self, events: Iterable[tuple[CachedPod, Event]], now: float) -> list[tuple[CachedPod, Event]]:
        """What is due: the first one of each namespace, then the second one of each, and so on; then repetitions.

        Of one namespace, pods that never had an Event come first, then the oldest Event.
        """
        taken = Counter[tuple[bool, str]]()
        order = list[tuple[bool, int, int, tuple[CachedPod, Event]]]()
        for pod, event in sorted(events, key=lambda one: self._pods.get(one[0].metadata.uid, 0)):
            namespace, at = pod.metadata.namespace, self._actuator.recorded_at(pod, event)
            if now - at < event.repeat_seconds:
                continue
            repeated = at > -math.inf
            order.append((repeated, taken[repeated, namespace], self._namespaces.get(namespace, 0), (pod, event)))
            taken[repeated, namespace] += 1
        return [one for *_, one in sorted(order, key=lambda one: one[:3])]


def _of_pods(
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
            message = f"Pod should schedule on: {place}{note}"
            event = Event(type="Normal", reason=reasons.NOMINATED, message=message, repeat_seconds=NOMINATED_SECONDS)
            yield pod, event
        elif pod.name in errors:
            yield pod, _failed(f"{errors[pod.name]}{note}")


def _failed(why: str) -> Event:
    message = f"Failed to schedule pod, {why}"
    return Event(type="Warning", reason=reasons.FAILED_SCHEDULING, message=message, repeat_seconds=FAILED_SECONDS)


def omissions(
    pools: Iterable[NodePool], found: ClusterSnapshot, refused: Mapping[str, Refusals]
) -> Iterator[tuple[NodePool | NodeClaim | Node, Event]]:
    """What the decision leaves out. A NodePool that is not Ready has a condition and an Event of its own.

    `refused`: what NodePools cannot launch although it is available to others, by name.
    """
    snapshot = found.snapshot
    types = {one.name: snapshot.instance_types if one.types is None else one.types for one in snapshot.node_pools}
    empty = {one.name for one in snapshot.node_pools if not offers(one, types[one.name], snapshot.well_known)}
    for pool in pools:
        if pool.name in empty:
            yield pool, _omission(reasons.NO_COMPATIBLE_INSTANCE_TYPES, NO_TYPES)
        if causes := refused.get(pool.name, ()):
            sizes = sorted({scope.size or "any size" for scope, _ in causes})
            more = f" and {len(sizes) - 1} other sizes" if len(sizes) > 1 else ""
            message = f"Cannot launch {sizes[0]}{more}: {causes[-1][1]}; correct the NodePool or its node class"
            yield pool, _omission(reasons.LAUNCH_FAILED, message)
    for about, cause in found.unreadable:
        message = f"it does not count as a machine for pending pods: {cause}; correct the field"
        yield about, _omission(reasons.FIELD_UNREADABLE, message)


def _omission(reason: str, message: str) -> Event:
    return Event(type="Warning", reason=reason, message=message, repeat_seconds=EVENT_TTL_SECONDS)
