"""Offerings in numbers: how often they are tried, what they were short of, and what rests now.

Label values are bounded: sizes we have data about, others as `other`; what rests is what `Cooldowns` knows,
with `any` for what a shortage does not tell apart.

Source: docs/references/monitoring.md#names, docs/references/rules.md#unavailable-offerings.
"""

import asyncio
from collections.abc import Iterator

from prometheus_client import Counter

from cloudprovider.interface import Offering
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.metrics.definitions import own
from provisioner.metrics.definitions.labels import ANY, REGIONAL
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample
from .label_values import size_label


class OfferingMetrics:
    """What a `Market` reports."""

    def __init__(self, metrics: Metrics) -> None:
        self._tries = metrics.counter(own.OFFERING_TRIES)

    def tried(self, offering: Offering) -> None:
        """A PUT is about to be sent for it."""
        self._tries.labels(size_label(offering.size), offering.capacity_type).inc()


def register_offering_metrics(
    metrics: Metrics, unavailable_offerings: UnavailableOfferings, errors: Counter
) -> OfferingMetrics:
    """Make the families known; what counts goes into the tallies."""

    def resting() -> Iterator[Sample]:
        """Seconds of rest that are left; 0 for what may be tried again and has not been had since."""
        left = dict[tuple[str, str, str], float]()
        for about, seconds in unavailable_offerings.resting(asyncio.get_running_loop().time()):
            size = ANY if not about.size else size_label(about.size)
            zone = ANY if about.zone is None else about.zone or REGIONAL
            labels = (size, zone, about.capacity_type or ANY)
            left[labels] = max(left.get(labels, 0.0), seconds)
        yield from ((own.OFFERING_COOLDOWN, labels, seconds) for labels, seconds in left.items())

    metrics.registry.register(GaugeCollector((own.OFFERING_COOLDOWN,), resting, errors))
    return OfferingMetrics(metrics)
