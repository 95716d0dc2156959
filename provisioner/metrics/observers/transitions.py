"""Counters and histograms of changes of NodeClaims and Nodes: creations, terminations, conditions and phases.

Each change counts once, in the process that is the leader when its cache changes. A new cache counts nothing: claims
that existed before the process started are not new. Durations come from timestamps of the objects, in whole seconds, so
that a restart does not lose them.

Source: docs/references/karpenter.md#conditions, docs/references/karpenter.md#metrics,
https://github.com/awslabs/operatorpkg/blob/main/status/controller.go (transitions, labels).
"""

from collections.abc import Callable
from datetime import datetime

from controllers.model.conditions import was_usable
from controllers.model.ownership import holds_finalizer, managed
from provisioner.api import labels, reasons
from provisioner.api.conditions import (
    DEPENDENTS,
    DRAINED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    READY,
    REGISTERED,
)
from provisioner.api.meta import Condition
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim, Phase
from provisioner.metrics.definitions import karpenter, own
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .label_values import LabelValues, capacity_label
from .summary import Summary


class Transitions:
    """Observes the caches of claims and Nodes."""

    def __init__(self, metrics: Metrics, label_values: LabelValues, clock: Clock, leading: Callable[[], bool]) -> None:
        self._label_values = label_values
        self._clock = clock
        self._leading = leading
        self._created = metrics.counter(karpenter.NODECLAIMS_CREATED)
        self._terminated = metrics.counter(karpenter.NODECLAIMS_TERMINATED)
        self._termination = metrics.histogram(karpenter.NODECLAIMS_TERMINATION)
        self._instance_termination = metrics.histogram(karpenter.INSTANCE_TERMINATION)
        self._object_termination = metrics.histogram(karpenter.TERMINATION_DURATION)
        self._transitions = metrics.counter(karpenter.CONDITION_TRANSITIONS)
        self._transition = metrics.histogram(karpenter.CONDITION_TRANSITION)
        self._phases = metrics.histogram(own.PHASE_SECONDS)
        self._nodes_created = metrics.counter(karpenter.NODES_CREATED)
        self._nodes_terminated = metrics.counter(karpenter.NODES_TERMINATED)
        self._nodes_drained = metrics.counter(karpenter.NODES_DRAINED)
        self._lifetime = metrics.histogram(karpenter.NODES_LIFETIME)
        self._node_termination = Summary(karpenter.NODES_TERMINATION)
        metrics.registry.register(self._node_termination)

    # Claims

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A NodeClaim was added, updated or deleted."""
        if old is None or not managed(old) or not self._leading():
            return
        same = new if new is not None and new.uid == old.uid else None
        if same is not None and _begun(same) and not _begun(old) and not same.deleting:
            nodepool = self._label_values.nodepool(same.metadata.labels)
            self._created.labels("provisioned", nodepool, "false").inc()
        if same is not None and same.status.conditions != old.status.conditions:
            self._conditions_changed(old, same)
        if holds_finalizer(old) and _released(same):
            self._claim_ended(old)

    def _conditions_changed(self, old: NodeClaim, new: NodeClaim) -> None:
        before = {condition.type: condition for condition in old.status.conditions}
        for condition in new.status.conditions:
            previous = before.get(condition.type)
            if previous is not None and previous.status == condition.status:
                continue
            was = previous or _implied(condition.type, old)
            classes = self._label_values.classes(new)
            reason = self._label_values.reason(condition.reason)
            self._transitions.labels(condition.type, condition.status, reason, *classes).inc()
            if was is not None and was.status != condition.status:
                self._transition.labels(was.type, was.status, *classes).observe(
                    _between(was.last_transition_time, condition.last_transition_time)
                )
            self._reached(old, new, condition, was)

    def _reached(self, old: NodeClaim, new: NodeClaim, condition: Condition, was: Condition | None) -> None:
        """Count what else this change of a condition means."""
        if condition.type == INSTANCE_TERMINATING and was is not None and was.status == "True":
            took = _between(was.last_transition_time, condition.last_transition_time)
            self._instance_termination.labels(self._label_values.nodepool(new.metadata.labels)).observe(took)
        if condition.status != "True":
            return
        created, at = new.metadata.creation_timestamp, condition.last_transition_time
        if condition.type == LAUNCHED:
            self._phase(Phase.LAUNCHING, new, created, at)
        elif condition.type == REGISTERED:
            self._phase(Phase.REGISTERING, new, _since(new, LAUNCHED, created), at)
        elif condition.type == INITIALIZED and not was_usable(old):
            self._phase(Phase.INITIALIZING, new, _since(new, REGISTERED, created), at)
            self._phase(Phase.READY, new, created, at)
        elif condition.type == DRAINED:
            self._nodes_drained.labels(self._label_values.nodepool(new.metadata.labels)).inc()

    def _phase(self, phase: Phase, claim: NodeClaim, since: datetime, until: datetime) -> None:
        self._phases.labels(phase, *self._label_values.machine(claim)).observe(_between(since, until))

    def _claim_ended(self, claim: NodeClaim) -> None:
        known, nodepool = claim.metadata.labels, self._label_values.nodepool(claim.metadata.labels)
        self._terminated.labels(nodepool, capacity_label(known), self._label_values.zone(known)).inc()
        deleted, now = claim.metadata.deletion_timestamp, self._clock.now()
        if deleted is not None:
            self._termination.labels(nodepool).observe(_between(deleted, now))
            self._object_termination.labels(*self._label_values.classes(claim)).observe(_between(deleted, now))
        terminating = claim.condition(INSTANCE_TERMINATING, "True")
        if terminating is not None:
            self._instance_termination.labels(nodepool).observe(_between(terminating.last_transition_time, now))

    # Nodes

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node was added, updated or deleted."""
        if old is None:
            return
        same = new if new is not None and new.uid == old.uid else None
        registered = labels.REGISTERED in old.metadata.labels
        # Most updates of Nodes are neither.
        begins = same is not None and not registered and labels.REGISTERED in same.metadata.labels
        ends = registered and holds_finalizer(old) and _released(same)
        if not (begins or ends) or not self._leading():
            return
        known = old.metadata.labels if same is None else same.metadata.labels
        if begins:
            self._nodes_created.labels(self._label_values.nodepool(known), self._label_values.zone(known)).inc()
        if ends:
            self._node_ended(old)

    def _node_ended(self, node: Node) -> None:
        known, now = node.metadata.labels, self._clock.now()
        nodepool, deleted = self._label_values.nodepool(known), node.metadata.deletion_timestamp
        self._nodes_terminated.labels(nodepool, self._label_values.zone(known)).inc()
        self._lifetime.labels(nodepool).observe(_between(node.metadata.creation_timestamp, now))
        if deleted is not None:
            self._node_termination.observe((nodepool,), _between(deleted, now))


def _begun(claim: NodeClaim) -> bool:
    """Whether the controller has written its first status. The finalizer says less: NodePools' claims begin with it."""
    return any(condition.reason != reasons.AWAITING for condition in claim.status.conditions)


def _released(now: NodeClaim | Node | None) -> bool:
    """Whether the object is deleted or has lost our finalizer while deleting. A live object gets the finalizer back."""
    return now is None or (now.deleting and not holds_finalizer(now))


def _implied(condition: str, claim: NodeClaim) -> Condition | None:
    """A missing condition of Ready or its dependents counts as Unknown since the creation of the claim."""
    if condition != READY and condition not in DEPENDENTS:
        return None
    return Condition(type=condition, status="Unknown", last_transition_time=claim.metadata.creation_timestamp)


def _since(claim: NodeClaim, condition: str, default: datetime) -> datetime:
    found = claim.condition(condition, "True")
    return found.last_transition_time if found is not None else default


def _between(since: datetime, until: datetime) -> float:
    """Seconds, at least 0: the times come from two clocks."""
    return max(0.0, (until - since).total_seconds())
