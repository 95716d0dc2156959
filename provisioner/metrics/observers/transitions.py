"""What is counted when claims and Nodes change: lives that begin and end, conditions that turn, phases that took time.

Each change counts once, by the process that leads when the watch shows it. A cache that is filled anew tells
nothing of the past: a claim that was made before this process began is not new. Durations come from the times that
stand on the objects, in whole seconds, so that a restart in the midst of them loses nothing.

Source: docs/references/karpenter.md#conditions, docs/references/karpenter.md#metrics,
https://github.com/awslabs/operatorpkg/blob/main/status/controller.go (transitions, labels).
"""

from collections.abc import Callable
from datetime import datetime

from controllers.model.ownership import holds_finalizer, managed
from controllers.nodeclaim.lifecycle.launch_failure import was_usable
from controllers.planner.plan import Phase
from provisioner.api import labels
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
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.definitions import karpenter, own
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .label_values import LabelValues, capacity_label, reason_label
from .summary import Summary


class Transitions:
    """Listens to the caches of claims and Nodes."""

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
        """A claim appeared, changed or went."""
        if old is None or not managed(old) or not self._leading():
            return
        same = new if new is not None and new.uid == old.uid else None
        if same is not None and holds_finalizer(same) and not holds_finalizer(old) and not same.deleting:
            nodepool = self._label_values.nodepool(same.metadata.labels)
            self._created.labels("provisioned", nodepool, "false").inc()
        if same is not None and same.status.conditions != old.status.conditions:
            self._turned(old, same)
        if holds_finalizer(old) and _let_go(same):
            self._claim_ended(old)

    def _turned(self, old: NodeClaim, new: NodeClaim) -> None:
        before = {condition.type: condition for condition in old.status.conditions}
        for condition in new.status.conditions:
            told = before.get(condition.type)
            if told is not None and told.status == condition.status:
                continue
            was = told or _awaited(condition.type, old)
            classes = self._label_values.classes(new)
            reason = reason_label(condition.reason)
            self._transitions.labels(condition.type, condition.status, reason, *classes).inc()
            if was is not None and was.status != condition.status:
                self._transition.labels(was.type, was.status, *classes).observe(
                    _between(was.last_transition_time, condition.last_transition_time)
                )
            self._reached(old, new, condition, was)

    def _reached(self, old: NodeClaim, new: NodeClaim, condition: Condition, was: Condition | None) -> None:
        """What else a turn of this condition means."""
        if condition.type == INSTANCE_TERMINATING and was is not None and was.status == "True":
            took = _between(was.last_transition_time, condition.last_transition_time)
            self._instance_termination.labels(self._label_values.nodepool(new.metadata.labels)).observe(took)
        if condition.status != "True":
            return
        born, at = new.metadata.creation_timestamp, condition.last_transition_time
        if condition.type == LAUNCHED:
            self._phase(Phase.LAUNCHING, new, born, at)
        elif condition.type == REGISTERED:
            self._phase(Phase.REGISTERING, new, _since(new, LAUNCHED, born), at)
        elif condition.type == INITIALIZED and not was_usable(old):
            self._phase(Phase.INITIALIZING, new, _since(new, REGISTERED, born), at)
            self._phase(Phase.READY, new, born, at)
        elif condition.type == DRAINED:
            self._nodes_drained.labels(self._label_values.nodepool(new.metadata.labels)).inc()

    def _phase(self, phase: Phase, claim: NodeClaim, since: datetime, until: datetime) -> None:
        self._phases.labels(phase, *self._label_values.machine(claim)).observe(_between(since, until))

    def _claim_ended(self, claim: NodeClaim) -> None:
        known, nodepool = claim.metadata.labels, self._label_values.nodepool(claim.metadata.labels)
        self._terminated.labels(nodepool, capacity_label(known), self._label_values.zone(known)).inc()
        asked, now = claim.metadata.deletion_timestamp, self._clock.now()
        if asked is not None:
            self._termination.labels(nodepool).observe(_between(asked, now))
            self._object_termination.labels(*self._label_values.classes(claim)).observe(_between(asked, now))
        going = claim.condition(INSTANCE_TERMINATING, "True")
        if going is not None:
            self._instance_termination.labels(nodepool).observe(_between(going.last_transition_time, now))

    # Nodes

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node appeared, changed or went."""
        if old is None:
            return
        same = new if new is not None and new.uid == old.uid else None
        registered = labels.REGISTERED in old.metadata.labels
        # Nodes change all the time, and nearly always in other ways than these.
        begins = same is not None and not registered and labels.REGISTERED in same.metadata.labels
        ends = registered and holds_finalizer(old) and _let_go(same)
        if not (begins or ends) or not self._leading():
            return
        known = old.metadata.labels if same is None else same.metadata.labels
        if begins:
            self._nodes_created.labels(self._label_values.nodepool(known), self._label_values.zone(known)).inc()
        if ends:
            self._node_ended(old)

    def _node_ended(self, node: Node) -> None:
        known, now = node.metadata.labels, self._clock.now()
        nodepool, asked = self._label_values.nodepool(known), node.metadata.deletion_timestamp
        self._nodes_terminated.labels(nodepool, self._label_values.zone(known)).inc()
        self._lifetime.labels(nodepool).observe(_between(node.metadata.creation_timestamp, now))
        if asked is not None:
            self._node_termination.observe((nodepool,), _between(asked, now))


def _let_go(now: NodeClaim | Node | None) -> bool:
    """Whether what our finalizer kept is gone, or going without it. A live object that lost it gets it back."""
    return now is None or (now.deleting and not holds_finalizer(now))


def _awaited(condition: str, claim: NodeClaim) -> Condition | None:
    """What a claim that says nothing yet is thought to say of Ready and what it sums up: Unknown since it exists."""
    if condition != READY and condition not in DEPENDENTS:
        return None
    return Condition(type=condition, status="Unknown", last_transition_time=claim.metadata.creation_timestamp)


def _since(claim: NodeClaim, condition: str, born: datetime) -> datetime:
    found = claim.condition(condition, "True")
    return found.last_transition_time if found is not None else born


def _between(since: datetime, until: datetime) -> float:
    """Seconds, none less than 0: two clocks wrote these times."""
    return max(0.0, (until - since).total_seconds())
