"""Drain of a Node before its machine is deleted.

Pods are evicted through the Eviction API in four tiers (ordinary, daemon, critical, critical daemon), each pod once. A
rejected eviction is retried, and an accepted one if the pod does not terminate. Pods of any tier that would not end by
the deadline are deleted in time for it; pods that cannot be listed do not delay the removal beyond it. Pods are listed
while a drain is in progress, never cached.

Source: docs/references/karpenter.md#drain.
"""

import math
from datetime import datetime

from controllers.model.drains import Drain
from controllers.model.facts import Facts
from controllers.model.failures import Verb
from controllers.model.ownership import belongs, holds_finalizer
from controllers.model.steps import DeletePods, EvictPods, ReadDrain, Step, Wait
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod

from . import grace_period
from .pod_predicates import is_evictable, is_waiting_eviction, tier

# A scheduler with a stale cache may bind pods for a few seconds after the Node is tainted.
LATE_BINDING_SECONDS = 5.0
# Pods that have not ended within a minute are polled less often.
SLOW_POLL_AFTER_SECONDS = 60.0
# An accepted eviction sets the deletionTimestamp at once.
REPEAT_EVICTION_SECONDS = 60.0


def step(f: Facts, node: Node, by: datetime | None) -> Step | None:
    """The drain's next step; None if it is complete. `by`: the time by which all pods must have ended."""
    drain = f.drain_of(node)
    if drain.read_failure is not None:
        # The machine is not kept past the deadline by pods that cannot be listed; the condition reports it.
        if by is not None and f.now >= by:
            return None
        if (left := drain.read_failure.retry_in(f.loop_now)) > 0:
            until = math.inf if by is None else (by - f.now).total_seconds()
            return Wait(after=min(left, until), why=f"failed to list the pods of Node {node.name}")
    poll = poll_seconds(f, drain)
    if drain.age(f.loop_now) > poll:
        return ReadDrain(node=node, attachments=not drain.known)
    waiting = waiting_pods(f, node)
    if not waiting:
        left = _late_binding_left(f, drain)
        return Wait(after=min(poll, left), why=f"pods may still be bound to Node {node.name}") if left > 0 else None
    if by is not None:
        late = grace_period.expiring_pods(waiting, by, f.now)
        if forced := tuple(pod for pod in late if _may_request(f, drain, pod, "delete")):
            return DeletePods(node=node, pods=forced, grace_seconds=grace_period.remaining_seconds(by, f.now))
        waiting = tuple(pod for pod in waiting if pod not in late)
    if due := _first_tier(f, drain, waiting):
        return EvictPods(node=node, pods=due)
    return Wait(after=min(poll, _seconds_until_forced(f, waiting, by)), why=f"waiting for pods on Node {node.name}")


def nodes_to_drain(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    """The Nodes from which pods are evicted before this claim's machine is deleted: those that were registered or are
    Ready.

    AKS creates Nodes without Karpenter's taint of unregistered ones, so that pods run there before the registration,
    and on further machines of the pool, which are not registered. A Node that lost our finalizer is drained, too. If
    the Node object is gone, the pods of the machine still run: the name in the claim's status stands for it, with the
    claim's UID.
    """
    own = tuple(node for node in f.nodes if belongs(node, claim))
    if not own and claim.status.node_name:
        return (Node(metadata=ObjectMeta(name=claim.status.node_name, uid=claim.uid)),)
    return tuple(node for node in own if _was_registered(node) or node.ready)


def waiting_pods(f: Facts, node: Node) -> tuple[Pod, ...]:
    """The pods, as last listed, that must end before this Node's machine is deleted."""
    return tuple(pod for pod in f.drain_of(node).pods if is_waiting_eviction(pod, f.now))


def is_drained(f: Facts, node: Node) -> bool:
    """Whether the Node, as last listed, has no pod to wait for, and late binding is no longer possible."""
    drain = f.drain_of(node)
    return drain.known and not waiting_pods(f, node) and _late_binding_left(f, drain) <= 0


def poll_seconds(f: Facts, drain: Drain) -> float:
    """The maximum age of the list of pods."""
    return (
        f.policy.drain_poll_seconds
        if drain.lasts(f.loop_now) < SLOW_POLL_AFTER_SECONDS
        else f.policy.drain_slow_poll_seconds
    )


def _was_registered(node: Node) -> bool:
    return holds_finalizer(node) or labels.REGISTERED in node.metadata.labels


def _first_tier(f: Facts, drain: Drain, waiting: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """The pods of the first remaining tier that can be evicted now."""
    first = min((tier(pod) for pod in waiting), default=0)
    candidates = (pod for pod in waiting if tier(pod) == first and is_evictable(pod, f.now))
    return tuple(pod for pod in candidates if _may_request(f, drain, pod, "evict"))


def _late_binding_left(f: Facts, drain: Drain) -> float:
    return LATE_BINDING_SECONDS - drain.lasts(f.loop_now) if drain.had_evictable else 0.0


def _may_request(f: Facts, drain: Drain, pod: Pod, verb: Verb) -> bool:
    failure, evicted_at = drain.failures.get(pod.metadata.uid), drain.evicted.get(pod.metadata.uid)
    if verb == "evict" and evicted_at is not None and f.loop_now - evicted_at < REPEAT_EVICTION_SECONDS:
        return False
    return failure is None or failure.verb != verb or failure.retry_in(f.loop_now) <= 0


def _seconds_until_forced(f: Facts, waiting: tuple[Pod, ...], by: datetime | None) -> float:
    """Seconds until the next pod must be deleted to end by the deadline."""
    if by is None:
        return float("inf")
    coming = [(grace_period.deletion_time(pod, by) - f.now).total_seconds() for pod in waiting]
    return min((seconds for seconds in coming if seconds > 0), default=float("inf"))
