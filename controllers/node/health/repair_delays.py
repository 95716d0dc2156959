"""What delays the repair of one machine, others aside.

Its signals have to last, and this process has to observe them for a while; AKS's node auto-repair takes precedence; and
a machine that still works keeps the pods that use its GPUs, up to a limit.

Source: docs/references/karpenter.md#node-repair, docs/references/agent-pools.md#machine-interruptions-and-auto-repair.
"""

from controllers.garbagecollection.garbage import block_removal
from controllers.model.facts import Facts, Unhealthy
from controllers.model.steps import CountGpuPods, ReadRemedies, Step, Wait
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.repair_policy import NOT_READY, NOT_REGISTERED

from . import cordon, signals
from .repairable import may_act, unhealthy_node

# Taints of AKS's remediator on a Node under repair; the name differs by version.
REMEDIATOR_TAINTS = ("remediator.kubernetes.azure.com/unschedulable", "remediator.aks.microsoft.com/unschedulable")


def delay(f: Facts, unhealthy: Unhealthy, node: Node) -> Step | None:
    """What delays the repair: its minimum age, the conditions of inferred removals, or AKS's auto-repair."""
    policy = f.policy
    least = policy.node_lost_seconds if unhealthy.lost else signals.seconds(f, unhealthy.policy)
    left = least - unhealthy.age(f.loop_now)
    if left > 0:
        return Wait(after=left, why=f"Node {node.name} may recover")
    if "DeleteClaim" in f.refused:
        return Wait(after=None, why="the API server rejects deleting the claim")
    watch = policy.node_lost_watch_seconds if unhealthy.lost else _watch_seconds(f, unhealthy, least)
    waiting = block_removal(f, unhealthy.observed_age(f.loop_now), watch)
    if waiting is not None and not f.counts.restricted:
        return waiting
    if unhealthy.policy.signal == NOT_REGISTERED:
        return None
    if unhealthy.remedies_age(f.loop_now) > policy.repair_poll_seconds:
        return ReadRemedies(node=node)
    left = _aks_repair_seconds_left(f, unhealthy, node)
    if left > 0:
        return Wait(after=min(left, policy.repair_poll_seconds), why=f"waiting for AKS auto-repair of Node {node.name}")
    return _wait_for_gpu_pods(f, unhealthy, node)


def _watch_seconds(f: Facts, unhealthy: Unhealthy, least: float) -> float:
    """Seconds for which this process must have observed a signal that is tolerated for `least` seconds.

    A clock that was set, or that differs from the former leader's, shortens the time by half at most: that much has
    been observed, by the processes before together with this one. A repair that another process had begun is only
    confirmed.
    """
    if f.claim is not None and labels.REPAIR_DRAIN_UNTIL in f.claim.metadata.annotations:
        return f.policy.repair_watch_seconds
    return max(f.policy.repair_watch_seconds, least / 2 - unhealthy.seconds_before)


def _wait_for_gpu_pods(f: Facts, unhealthy: Unhealthy, node: Node) -> Step | None:
    """A machine that still works keeps the pods that use its GPUs, up to a limit."""
    row = unhealthy.policy
    left = pods_seconds_left(f, unhealthy)
    if left <= 0 or not row.works:
        return None
    if unhealthy.gpu_pods_age(f.loop_now) > f.policy.repair_poll_seconds:
        return CountGpuPods(node=node)
    if unhealthy.gpu_pods:
        pods = f"{unhealthy.gpu_pods} pods with GPUs on Node {node.name}"
        return Wait(after=min(left, f.policy.repair_poll_seconds), why=f"waiting for {pods}")
    return None


def pods_seconds_left(f: Facts, unhealthy: Unhealthy) -> float:
    """For how long its pods are waited for, since its repair is due, and since its Node takes no new ones.

    At least half of that time is observed, by the processes before together with this one: clocks differ, and are set.
    """
    row, node, claim = unhealthy.policy, unhealthy_node(f), f.claim
    waited = unhealthy.age(f.loop_now) - signals.seconds(f, row)
    observed = unhealthy.seconds_before + unhealthy.observed_age(f.loop_now)
    if node is not None and claim is not None and cordon.precedes(f, node, enabled=may_act(f.policy, claim)):
        waited, observed = min(waited, cordon.age(f, node)), unhealthy.closed_before + cordon.observed_age(f, node)
    return max(row.pods_seconds - waited, row.pods_seconds / 2 - observed)


def _aks_repair_seconds_left(f: Facts, unhealthy: Unhealthy, node: Node) -> float:
    """Seconds to wait for AKS's auto-repair; 0 or less if it is not in progress, or has failed."""
    policy, until = f.policy, 0.0
    # AKS repairs only Nodes that are not Ready: for these alone, a repair that cannot be read is assumed.
    unknown = unhealthy.remedies is None and unhealthy.policy.signal == NOT_READY
    if unknown or any(taint.key in REMEDIATOR_TAINTS for taint in node.spec.taints):
        until = policy.repair_aks_seconds
    last = unhealthy.remedies[-1] if unhealthy.remedies else None
    if last is not None:
        happened = unhealthy.age(f.loop_now) - (f.now - last.at).total_seconds()
        if last.stage == "Start":
            until = max(until, policy.repair_aks_seconds, happened + policy.repair_remedy_seconds)
        elif last.stage == "End":
            until = max(until, happened + policy.repair_remedied_seconds)
    return min(until, policy.repair_most_seconds) - unhealthy.age(f.loop_now)
