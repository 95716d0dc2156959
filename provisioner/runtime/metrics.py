"""Prometheus families of one process, under the names controller-runtime and client-go gave them.

Promise: a registry per `Metrics`, never the library's global one, so that many processes can live in one test; no
`_created` series; label values are bounded (no object names).
Left to others: what is counted when (each module takes the small object made for it here); serving (`server.py`).

Source: karpenter.md §7 (names, labels, buckets), ecosystem.md §2.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

QUEUE_BUCKETS = tuple(1e-8 * 10**n for n in range(12))
REQUEST_BUCKETS = tuple(0.001 * 1.5**n for n in range(20))
_TENTHS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
_SECONDS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60)
RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, *_TENTHS, *_SECONDS)


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    depth: Gauge
    adds: Counter
    wait_seconds: Histogram
    work_seconds: Histogram
    retries: Counter
    unfinished_seconds: Gauge
    longest_seconds: Gauge


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    success: Counter
    error: Counter
    requeue_after: Counter
    errors: Counter
    seconds: Histogram
    active: Gauge
    workers: Gauge


@dataclass(frozen=True, slots=True)
class ReflectorMetrics:
    lists: Counter
    watches: Counter
    errors: Counter
    objects: Gauge
    age_seconds: Gauge


@dataclass(frozen=True, slots=True)
class EventMetrics:
    sent: Counter
    dropped: Counter


class Metrics:
    """All families of one process; each is made when first asked for."""

    def __init__(self, *, process: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def counter(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
        """A new family; its name should end in `_total`."""
        return Counter(name, documentation, labels, registry=self.registry)

    def gauge(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
        """A new family."""
        return Gauge(name, documentation, labels, registry=self.registry)

    def histogram(
        self, name: str, documentation: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> Histogram:
        """A new family; its name should say `_seconds` if that is what it measures."""
        return Histogram(name, documentation, labels, buckets=tuple(buckets), registry=self.registry)

    def workqueue(self, name: str) -> QueueMetrics:
        """What a `WorkQueue` reports, under the labels name and controller."""
        depth, adds, wait, work, retries, unfinished, longest = self._workqueue
        return QueueMetrics(
            depth.labels(name, name),
            adds.labels(name, name),
            wait.labels(name, name),
            work.labels(name, name),
            retries.labels(name, name),
            unfinished.labels(name, name),
            longest.labels(name, name),
        )

    def controller(self, name: str) -> ControllerMetrics:
        """What a `Controller` reports."""
        total, errors, seconds, active, workers = self._controller
        return ControllerMetrics(
            total.labels(name, "success"),
            total.labels(name, "error"),
            total.labels(name, "requeue_after"),
            errors.labels(name),
            seconds.labels(name),
            active.labels(name),
            workers.labels(name),
        )

    def reflector(self, resource: str) -> ReflectorMetrics:
        """What a `Reflector` reports."""
        lists, watches, errors, objects, age = self._reflector
        return ReflectorMetrics(
            lists.labels(resource),
            watches.labels(resource),
            errors.labels(resource),
            objects.labels(resource),
            age.labels(resource),
        )

    def leader(self, name: str) -> Gauge:
        """1 while this process holds the lease of that name."""
        return self._leader.labels(name)

    def events(self) -> EventMetrics:
        """What an `EventRecorder` reports."""
        return EventMetrics(*self._events)

    def kube_request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count one request to the API server; hand this method to `Kube(on_request=...)`."""
        total, duration = self._requests
        total.labels(str(status) if status else "<error>", verb.upper()).inc()
        duration.labels(verb.upper(), resource).observe(seconds)

    @cached_property
    def _workqueue(self) -> tuple[Gauge, Counter, Histogram, Histogram, Counter, Gauge, Gauge]:
        labels = ("name", "controller")
        return (
            self.gauge("workqueue_depth", "Keys that wait to be worked on", labels),
            self.counter("workqueue_adds_total", "Keys added", labels),
            self.histogram("workqueue_queue_duration_seconds", "How long a key waits", labels, buckets=QUEUE_BUCKETS),
            self.histogram(
                "workqueue_work_duration_seconds", "How long a key is worked on", labels, buckets=QUEUE_BUCKETS
            ),
            self.counter("workqueue_retries_total", "Keys to be tried again after an error", labels),
            self.gauge("workqueue_unfinished_work_seconds", "Summed age of the work in progress", labels),
            self.gauge("workqueue_longest_running_processor_seconds", "Age of the oldest work in progress", labels),
        )

    @cached_property
    def _controller(self) -> tuple[Counter, Counter, Histogram, Gauge, Gauge]:
        return (
            self.counter("controller_runtime_reconcile_total", "Passes by result", ("controller", "result")),
            self.counter("controller_runtime_reconcile_errors_total", "Passes that failed", ("controller",)),
            self.histogram(
                "controller_runtime_reconcile_time_seconds",
                "How long a pass takes",
                ("controller",),
                buckets=RECONCILE_BUCKETS,
            ),
            self.gauge("controller_runtime_active_workers", "Workers in a pass", ("controller",)),
            self.gauge("controller_runtime_max_concurrent_reconciles", "Workers", ("controller",)),
        )

    @cached_property
    def _reflector(self) -> tuple[Counter, Counter, Counter, Gauge, Gauge]:
        labels = ("resource",)
        return (
            self.counter("gpu_provisioner_cache_lists_total", "Whole lists read", labels),
            self.counter("gpu_provisioner_cache_watches_total", "Watches opened", labels),
            self.counter("gpu_provisioner_cache_errors_total", "Lists and watches that failed", labels),
            self.gauge("gpu_provisioner_cache_objects", "Objects in the cache", labels),
            self.gauge("gpu_provisioner_cache_age_seconds", "Time since the cache last heard of the server", labels),
        )

    @cached_property
    def _leader(self) -> Gauge:
        return self.gauge("leader_election_master_status", "1 while this process leads", ("name",))

    @cached_property
    def _events(self) -> tuple[Counter, Counter]:
        return (
            self.counter("gpu_provisioner_events_sent_total", "Events written"),
            self.counter("gpu_provisioner_events_dropped_total", "Events not written: too many, or refused"),
        )

    @cached_property
    def _requests(self) -> tuple[Counter, Histogram]:
        return (
            self.counter("client_go_request_total", "Requests to the API server", ("code", "method")),
            self.histogram(
                "client_go_request_duration_seconds",
                "Time until the API server begins to answer",
                ("verb", "resource"),
                buckets=REQUEST_BUCKETS,
            ),
        )


def age_since(moment: Callable[[], float]) -> Callable[[], float]:
    """A gauge's function: seconds from `moment()` (loop time) to the scrape, which runs on the same loop."""
    return lambda: asyncio.get_running_loop().time() - moment()
