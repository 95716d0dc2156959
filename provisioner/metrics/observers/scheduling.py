"""Metrics of scheduling decisions and of the pods that they are about, with Karpenter's names where it has one.

A pod is counted if this process has seen it without a Node; no series has the name of a pod.

Source: docs/references/karpenter.md#metrics.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from prometheus_client import Counter

from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.model import Decision
from provisioner.api.pod import Pod
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample
from .guard import guarded
from .summary import Summary

CONTROLLER = "provisioner"
FAMILIES = (
    karpenter.UNSCHEDULABLE_PODS,
    karpenter.IGNORED_PODS,
    karpenter.QUEUE_DEPTH,
    karpenter.UNFINISHED_WORK,
    own.PODS_SET_ASIDE,
    own.BRAKED_PODS,
)


@dataclass(slots=True)
class _Starting:
    """A pod that was seen without a Node and is not Ready yet. `placed_at`: the first decision with a place for it."""

    uid: str
    created_at: datetime
    placed_at: datetime | None = None
    bound: bool = False


class _Last(NamedTuple):
    """Numbers of pods in the last decision."""

    unschedulable: int
    ignored: int
    pods: int
    set_aside: int


class SchedulingMetrics:
    """Counts the decisions of a `Provisioner` and the pods of its cache. `errors` counts failed collections."""

    def __init__(self, metrics: Metrics, errors: Counter, clock: Clock) -> None:
        self._errors = errors
        self._clock = clock
        self._duration = metrics.histogram(karpenter.SCHEDULING_DURATION)
        self._first = metrics.histogram(karpenter.PODS_DECISION)
        self._bound = metrics.histogram(karpenter.PODS_BOUND)
        self._provisioning_bound = metrics.histogram(karpenter.PODS_PROVISIONING_BOUND)
        self._provisioning_startup = metrics.histogram(karpenter.PODS_PROVISIONING_STARTUP)
        self._misfits = metrics.counter(own.MISFITS)
        self._startup = Summary(karpenter.PODS_STARTUP)
        self._starting: dict[str, _Starting] = {}
        self._due_at: float | None = None
        self._braked = 0
        self._last: _Last | None = None
        metrics.registry.register(self._startup)
        metrics.registry.register(GaugeCollector(FAMILIES, self._samples, errors))

    # Decisions

    def due(self) -> None:
        """A decision is due, or under way; repeated calls do not count."""
        if self._due_at is None:
            self._due_at = asyncio.get_running_loop().time()

    def finished(self) -> None:
        """The decision that was due is written."""
        self._due_at = None

    def decided(self, decision: Decision, pods: int, ignored: int, set_aside: int, seconds: float) -> None:
        """A decision about so many pods was made. `ignored`, `set_aside`: further pods that it left out."""
        self._duration.labels(CONTROLLER).observe(seconds)
        self._last = _Last(len(decision.errors), ignored, pods, set_aside + len(decision.set_aside))
        now = self._clock.now()
        for group in (*(machine.pods for machine in decision.machines), *decision.existing.values()):
            for name in group:
                if (pod := self._starting.get(name)) is not None and pod.placed_at is None:
                    pod.placed_at = now
        for name in decision.errors:
            if (pod := self._starting.get(name)) is not None:
                pod.placed_at = None

    def first_decision(self, seconds: float) -> None:
        """The first decision about a pod was made so long after its creation."""
        self._first.observe(seconds)

    def misfit(self, cause: str) -> None:
        """A machine did not take the pods that it was bought for."""
        self._misfits.labels(cause if cause in own.MISFIT_REASONS else OTHER).inc()

    def braked(self, pods: int) -> None:
        """For so many pods no machine is bought."""
        self._braked = pods

    def nothing_pending(self, ignored: int) -> None:
        """No pod needs a decision."""
        self._due_at = None
        self._braked = 0
        self._last = _Last(0, ignored, 0, 0)

    def stopped(self) -> None:
        """Pods are no longer watched."""
        self._starting.clear()
        self._due_at = self._last = None
        self._braked = 0

    # Pods

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was added, updated or deleted."""
        with guarded(self._errors):
            if isinstance(new, CachedPod):
                self._observe(new)
            elif old is not None:
                self._starting.pop(old.name, None)

    def _observe(self, new: CachedPod) -> None:
        pod = self._starting.get(new.name)
        if pod is not None and pod.uid != new.metadata.uid:
            del self._starting[new.name]
            pod = None
        if not new.spec.node_name:
            if pod is None:
                self._starting[new.name] = _Starting(new.metadata.uid, new.metadata.creation_timestamp)
            return
        if pod is None:
            return
        now = self._clock.now()
        if not pod.bound:
            pod.bound = True
            self._bound.observe(_between(pod.created_at, now))
            if pod.placed_at is not None:
                self._provisioning_bound.observe(_between(pod.placed_at, now))
        if new.ready:
            self._startup.observe((), _between(pod.created_at, now))
            if pod.placed_at is not None:
                self._provisioning_startup.observe(_between(pod.placed_at, now))
            del self._starting[new.name]

    def _samples(self) -> Iterator[Sample]:
        """The numbers of the last decision; nothing before the first one."""
        if self._last is not None:
            yield karpenter.UNSCHEDULABLE_PODS, (CONTROLLER,), float(self._last.unschedulable)
            yield karpenter.IGNORED_PODS, (), float(self._last.ignored)
            yield own.BRAKED_PODS, (), float(self._braked)
            yield karpenter.QUEUE_DEPTH, (CONTROLLER,), float(self._last.pods)
            yield own.PODS_SET_ASIDE, (), float(self._last.set_aside)
            due = self._due_at
            unfinished = asyncio.get_running_loop().time() - due if due is not None else 0.0
            yield karpenter.UNFINISHED_WORK, (CONTROLLER,), unfinished


def _between(since: datetime, until: datetime) -> float:
    """Seconds, at least 0: the times come from two clocks."""
    return max(0.0, (until - since).total_seconds())
