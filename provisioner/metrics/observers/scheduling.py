"""Metrics of scheduling decisions, with Karpenter's names.

Source: docs/references/karpenter.md#metrics.
"""

from collections.abc import Iterator

from prometheus_client import Counter

from controllers.provisioning.solver.model import Decision
from provisioner.metrics.definitions import karpenter
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample

CONTROLLER = "provisioner"
FAMILIES = (karpenter.UNSCHEDULABLE_PODS, karpenter.IGNORED_PODS, karpenter.QUEUE_DEPTH)


class SchedulingMetrics:
    """Counts the decisions of a `Provisioner`. `errors` counts failed collections."""

    def __init__(self, metrics: Metrics, errors: Counter) -> None:
        self._duration = metrics.histogram(karpenter.SCHEDULING_DURATION)
        self._first = metrics.histogram(karpenter.PODS_DECISION)
        self._last: tuple[int, int, int] | None = None
        metrics.registry.register(GaugeCollector(FAMILIES, self._samples, errors))

    def decided(self, decision: Decision, pods: int, ignored: int, seconds: float) -> None:
        """A decision about so many pods was made."""
        self._duration.labels(CONTROLLER).observe(seconds)
        self._last = len(decision.errors), ignored, pods

    def first_decision(self, seconds: float) -> None:
        """The first decision about a pod was made so long after its creation."""
        self._first.observe(seconds)

    def _samples(self) -> Iterator[Sample]:
        """The numbers of the last decision; nothing before the first one."""
        if self._last is not None:
            unschedulable, ignored, pods = self._last
            yield karpenter.UNSCHEDULABLE_PODS, (CONTROLLER,), float(unschedulable)
            yield karpenter.IGNORED_PODS, (), float(ignored)
            yield karpenter.QUEUE_DEPTH, (CONTROLLER,), float(pods)
