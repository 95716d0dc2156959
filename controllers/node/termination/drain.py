"""Emptying a Node before its machine goes: who is asked to leave, when, and when the Node counts as empty.

Pods leave by the Eviction API in four tiers (ordinary, daemon, critical, critical daemon), each asked once;
what refuses (a budget, several, an error) is waited for, asked again and named. Pods that would outlast the claim's
termination time are deleted in time for it, in whatever tier. Pods are read while a drain is on, never cached.

Source: docs/references/karpenter.md#drain.
"""

from datetime import datetime

from controllers.model.facts import Asked, Drain, Facts
from controllers.model.steps import DeletePods, EvictPods, ReadDrain, Step, Wait
from provisioner.api.node import Node
from provisioner.api.pod import Pod

from . import grace_period
from .pod_predicates import is_evictable, is_waiting_eviction, tier

# A scheduler that had not seen the taint may still bind pods for a moment.
LATE_BINDING_SECONDS = 5.0
# Whoever has not left within a minute is held by something that seconds do not change.
PATIENT_AFTER_SECONDS = 60.0


def step(f: Facts, node: Node, by: datetime | None) -> Step | None:
    """The drain's next step; None: nothing holds this Node any longer. `by`: when all pods must be gone."""
    drain = f.drain_of(node)
    if drain.unread is not None and drain.unread.holds_for > 0:
        return Wait(after=drain.unread.holds_for, why=f"the pods of {node.name} cannot be read")
    poll = poll_seconds(f, drain)
    if drain.age > poll:
        return ReadDrain(node=node)
    waiting = waiting_pods(f, node)
    if not waiting:
        left = _late_binding_left(drain)
        return Wait(after=min(poll, left), why=f"pods may still come to {node.name}") if left > 0 else None
    if by is not None:
        late = grace_period.expiring_pods(waiting, by, f.now)
        if forced := tuple(pod for pod in late if _may_request(drain, pod, "delete")):
            return DeletePods(node=node, pods=forced, grace_seconds=grace_period.remaining_seconds(by, f.now))
        waiting = tuple(pod for pod in waiting if pod not in late)
    if due := _first_tier(f, drain, waiting):
        return EvictPods(node=node, pods=due)
    return Wait(after=min(poll, _seconds_until_forced(f, waiting, by)), why=f"pods are on {node.name}")


def waiting_pods(f: Facts, node: Node) -> tuple[Pod, ...]:
    """The pods, as last read, that must be gone before this Node's machine may go."""
    return tuple(pod for pod in f.drain_of(node).pods if is_waiting_eviction(pod, f.now))


def is_drained(f: Facts, node: Node) -> bool:
    """Whether the Node, as last read, had no pod to wait for, nor time left in which one might still come."""
    drain = f.drain_of(node)
    return drain.known and not waiting_pods(f, node) and _late_binding_left(drain) <= 0


def poll_seconds(f: Facts, drain: Drain) -> float:
    """How old a reading of the Node may be."""
    return f.policy.drain_poll_seconds if drain.since < PATIENT_AFTER_SECONDS else f.policy.drain_patient_seconds


def _first_tier(f: Facts, drain: Drain, waiting: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """Those of the first tier that is still there who may be asked to leave now."""
    first = min((tier(pod) for pod in waiting), default=0)
    candidates = (pod for pod in waiting if tier(pod) == first and is_evictable(pod, f.now))
    return tuple(
        pod for pod in candidates if pod.metadata.uid not in drain.evicted and _may_request(drain, pod, "evict")
    )


def _late_binding_left(drain: Drain) -> float:
    return LATE_BINDING_SECONDS - drain.since if drain.had_evictable else 0.0


def _may_request(drain: Drain, pod: Pod, what: Asked) -> bool:
    held = drain.held.get(pod.metadata.uid)
    return held is None or held.asked != what or held.holds_for <= 0


def _seconds_until_forced(f: Facts, waiting: tuple[Pod, ...], by: datetime | None) -> float:
    """Seconds until the next pod has to be deleted for the termination time."""
    if by is None:
        return float("inf")
    coming = [(grace_period.deletion_time(pod, by) - f.now).total_seconds() for pod in waiting]
    return min((seconds for seconds in coming if seconds > 0), default=float("inf"))
