"""Emptying a Node before its machine goes: which pods must leave, in which order, and what holds them.

Promise: pods leave by the Eviction API in four tiers (ordinary, daemon, critical, critical daemon), each asked once;
a disruption budget that refuses is waited for. Pods that tolerate the disrupted taint, mirror pods, finished pods and
pods stuck past their own grace hold nothing up. Pods are read while a drain is on, never cached.
Left to others: the order around it (`termination.py`), sending evictions (`acting/kube.py`).

Source: karpenter.md §4 (predicates, tiers, timings).
"""

from datetime import datetime

from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.pod import Pod, Toleration

from .facts import Facts
from .steps import EvictPods, ReadDrain, Step, Wait

STUCK_SECONDS = 60.0
RETRY_SECONDS = 5.0
CRITICAL = ("system-cluster-critical", "system-node-critical")


def step(f: Facts, node: Node) -> Step | None:
    """The drain's next step; None: nothing holds this Node any longer."""
    poll = f.policy.drain_poll_seconds
    if f.drain.age > poll:
        return ReadDrain(node=node)
    waiting = held_by_pods(f)
    if not waiting:
        return None
    tier = min(_tier(pod) for pod in waiting)
    asked_again = f.drain.blocked_age > RETRY_SECONDS
    due = tuple(
        pod
        for pod in waiting
        if _tier(pod) == tier
        and evictable(pod)
        and pod.metadata.uid not in f.drain.evicted
        and (asked_again or pod.metadata.uid not in f.drain.blocked)
    )
    if due:
        return EvictPods(node=node, pods=due)
    return Wait(after=poll, why=f"{len(waiting)} pods are waiting to be evicted from {node.name}")


def held_by_pods(f: Facts) -> tuple[Pod, ...]:
    """The pods, as last read, that must be gone before the machine may go."""
    return tuple(
        pod for pod in f.drain.pods if drainable(pod, f.now) and pod.status.phase not in ("Succeeded", "Failed")
    )


def message(f: Facts) -> str:
    """What a drain waits for, with names: budgets first, for they are what a person can change."""
    waiting = held_by_pods(f)
    names = ", ".join(pod.name for pod in waiting[:3]) + (f" and {len(waiting) - 3} more" if len(waiting) > 3 else "")
    refused = next((why for pod in waiting if (why := f.drain.blocked.get(pod.metadata.uid))), "")
    cause = f": {refused}" if refused else ""
    return f"{len(waiting)} pods are waiting to be evicted ({names}){cause}"


def drainable(pod: Pod, now: datetime) -> bool:
    """Whether this pod's presence holds up the drain at all."""
    return not (_mirror(pod) or _stuck(pod, now) or any(_tolerates_disruption(t) for t in pod.spec.tolerations))


def evictable(pod: Pod) -> bool:
    """Whether this pod may be asked to leave: not already going, and not protected by its owner."""
    protected = pod.metadata.annotations.get(labels.DO_NOT_DISRUPT) == "true"
    return not pod.metadata.deleting and not protected


def _mirror(pod: Pod) -> bool:
    return any(owner.kind == "Node" and owner.api_version == "v1" for owner in pod.metadata.owner_references)


def _stuck(pod: Pod, now: datetime) -> bool:
    """Deleting for over a minute past its grace, which deletionTimestamp already includes."""
    gone_by = pod.metadata.deletion_timestamp
    return gone_by is not None and (now - gone_by).total_seconds() > STUCK_SECONDS


def _tolerates_disruption(toleration: Toleration) -> bool:
    if toleration.effect not in ("", "NoSchedule"):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", labels.DISRUPTED_TAINT)
    return toleration.key == labels.DISRUPTED_TAINT and toleration.value == ""


def _tier(pod: Pod) -> int:
    critical = pod.spec.priority_class_name in CRITICAL
    daemon = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
    return 2 * critical + daemon
