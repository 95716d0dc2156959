"""Prometheus metric families of one process, created from their definitions (`provisioner.metrics.definitions`).

Each `Metrics` has its own registry instead of the library's global one, so that tests can run several processes. There
are no `_created` series. A family is created once, when it is first used.

Source: docs/references/karpenter.md#metrics, docs/references/monitoring.md#names.
"""

import asyncio
import itertools
from collections.abc import Callable
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

from provisioner.metrics.definitions import LABELS, Family, own, runtime
from provisioner.metrics.definitions.labels import Queue

from .resources import BY_PLURAL

# The label of client-go for a request without a response.
NO_ANSWER = "<error>"
KUBE_REFUSALS = {401: "unauthenticated", 403: "forbidden"}


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
    """`total` has the labels controller and result; `errors` and `seconds` have controller."""

    total: Counter
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
    unreadable: Gauge
    age_seconds: Gauge
    object_errors: Counter


@dataclass(frozen=True, slots=True)
class EventMetrics:
    sent: Counter
    dropped: Counter


class Metrics:
    """The metric families of one process; each is created when it is first used."""

    def __init__(self, *, process: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def counter(self, family: Family) -> Counter:
        """Create the family in this registry. Raises ValueError if it exists."""
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def gauge(self, family: Family) -> Gauge:
        """As `counter`."""
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def histogram(self, family: Family) -> Histogram:
        """As `counter`."""
        return Histogram(family.name, family.help, family.labels, buckets=family.buckets, registry=self.registry)

    def workqueue(self, name: Queue) -> QueueMetrics:
        """The metrics of a `WorkQueue`, with the labels name and controller."""
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
        """The metrics of a `Controller`."""
        total, errors, seconds, active, workers = self._controller
        return ControllerMetrics(total, errors, seconds, active.labels(name), workers.labels(name))

    def reflector(self, resource: str) -> ReflectorMetrics:
        """The metrics of a `Reflector`."""
        lists, watches, errors, objects, unreadable, age = self._reflector
        return ReflectorMetrics(
            lists.labels(resource),
            watches.labels(resource),
            errors.labels(resource),
            objects.labels(resource),
            unreadable.labels(resource),
            age.labels(resource),
            self.object_errors,
        )

    def cache(self, resource: str) -> tuple[Gauge, Gauge]:
        """Number of objects and age in seconds of a cache that is not a `Reflector`."""
        *_, objects, _, age = self._reflector
        return objects.labels(resource), age.labels(resource)

    def leader(self, name: str) -> Gauge:
        """1 while this process holds the Lease of that name."""
        return self._leader.labels(name)

    def events(self) -> EventMetrics:
        """The metrics of an `EventRecorder`."""
        return EventMetrics(*self._events)

    def kube_request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count one request to the API server; pass this method to `Kube(on_request=...)`.

        `resource` is the plural, followed by `/subresource` for a subresource.
        """
        total, duration = self._requests
        plural, _, subresource = resource.partition("/")
        total.labels(str(status) if status else NO_ANSWER, verb.upper()).inc()
        if status in KUBE_REFUSALS:
            self.credential_failures.labels("kubernetes", KUBE_REFUSALS[status]).inc()
        known = BY_PLURAL.get(plural)
        where = (known.group, known.version, known.kind) if known is not None else ("", "", plural)
        duration.labels(verb.upper(), *where, subresource).observe(seconds)

    @cached_property
    def credential_failures(self) -> Counter:
        """Requests that failed because of their credential, by system and reason."""
        failures = self.counter(own.CREDENTIAL_FAILURES)
        # Series exist from the start, so that `increase()` sees the first failure.
        for system, reason in itertools.product(LABELS["system"].values, own.CREDENTIAL_REASONS):
            failures.labels(system, reason)
        return failures

    @cached_property
    def object_errors(self) -> Counter:
        """Errors that single objects caused, by kind."""
        return self.counter(own.OBJECT_ERRORS)

    @cached_property
    def _workqueue(self) -> tuple[Gauge, Counter, Histogram, Histogram, Counter, Gauge, Gauge]:
        return (
            self.gauge(runtime.QUEUE_DEPTH),
            self.counter(runtime.QUEUE_ADDS),
            self.histogram(runtime.QUEUE_WAIT),
            self.histogram(runtime.QUEUE_WORK),
            self.counter(runtime.QUEUE_RETRIES),
            self.gauge(runtime.QUEUE_UNFINISHED),
            self.gauge(runtime.QUEUE_LONGEST),
        )

    @cached_property
    def _controller(self) -> tuple[Counter, Counter, Histogram, Gauge, Gauge]:
        return (
            self.counter(runtime.RECONCILE_TOTAL),
            self.counter(runtime.RECONCILE_ERRORS),
            self.histogram(runtime.RECONCILE_SECONDS),
            self.gauge(runtime.ACTIVE_WORKERS),
            self.gauge(runtime.WORKERS),
        )

    @cached_property
    def _reflector(self) -> tuple[Counter, Counter, Counter, Gauge, Gauge, Gauge]:
        return (
            self.counter(own.CACHE_LISTS),
            self.counter(own.CACHE_WATCHES),
            self.counter(own.CACHE_ERRORS),
            self.gauge(own.CACHE_OBJECTS),
            self.gauge(own.CACHE_UNREADABLE),
            self.gauge(own.CACHE_AGE),
        )

    @cached_property
    def _leader(self) -> Gauge:
        return self.gauge(runtime.LEADER)

    @cached_property
    def _events(self) -> tuple[Counter, Counter]:
        return self.counter(own.EVENTS_SENT), self.counter(own.EVENTS_DROPPED)

    @cached_property
    def _requests(self) -> tuple[Counter, Histogram]:
        return self.counter(runtime.REQUESTS), self.histogram(runtime.REQUEST_SECONDS)


def age_since(moment: Callable[[], float]) -> Callable[[], float]:
    """A gauge function: seconds since the loop time `moment()`. The scrape runs on the same loop."""
    return lambda: asyncio.get_running_loop().time() - moment()
