"""Metrics of offerings: attempts, and which are unavailable.

Source: docs/references/monitoring.md#names, docs/references/rules.md#unavailable-offerings.
"""

import asyncio
from collections.abc import Iterator

from prometheus_client import Counter

from cloudprovider.cloud import Cloud
from cloudprovider.interface import Offering
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.metrics.definitions import own
from provisioner.metrics.definitions.labels import ANY, REGIONAL
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample
from .label_values import LabelValues


class OfferingMetrics:
    """The counters of an `OfferingTracker`."""

    def __init__(self, metrics: Metrics, label_values: LabelValues) -> None:
        self._label_values = label_values
        self._tries = metrics.counter(own.OFFERING_TRIES)

    def tried(self, offering: Offering) -> None:
        """A PUT for this offering is about to be sent."""
        self._tries.labels(self._label_values.size(offering.size), offering.capacity_type).inc()


def register_offering_metrics(
    metrics: Metrics, cloud: Cloud, unavailable_offerings: UnavailableOfferings, errors: Counter
) -> OfferingMetrics:
    """Register the gauge of unavailable offerings; returns the counters."""
    label_values = LabelValues(cloud)

    def unavailable() -> Iterator[Sample]:
        """Remaining seconds; 0 if the next attempt is allowed and none has succeeded yet."""
        remaining = dict[tuple[str, str, str], float]()
        for scope, seconds in unavailable_offerings.unavailable(asyncio.get_running_loop().time()):
            if not scope.everyone:
                continue  # other claims may request it
            size = ANY if not scope.size else label_values.size(scope.size)
            zone = ANY if scope.zone is None else scope.zone or REGIONAL
            labels = (size, zone, scope.capacity_type or ANY)
            remaining[labels] = max(remaining.get(labels, 0.0), seconds)
        yield from ((own.OFFERING_UNAVAILABLE, labels, seconds) for labels, seconds in remaining.items())

    metrics.registry.register(GaugeCollector((own.OFFERING_UNAVAILABLE,), unavailable, errors))
    return OfferingMetrics(metrics, label_values)
