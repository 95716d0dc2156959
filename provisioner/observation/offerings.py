"""Offerings in numbers: how often they are tried, what they were short of, and what rests now.

Promise: label values are bounded: sizes we have data about, others as `other`; what rests is what `Cooldowns` knows,
with `any` for what a shortage does not tell apart.
Left to others: what counts as a try or a shortage (`controllers.market`).

Source: ecosystem.md §2.2; DESIGN rule 7.
"""

import asyncio
from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily

from cloudprovider.interface import Offering
from controllers.cooldowns import Cooldowns
from provisioner.families import own
from provisioner.families.labels import ANY, REGIONAL
from provisioner.runtime.metrics import Metrics

from .terms import size_label


class Tallies:
    """What a `Market` reports."""

    def __init__(self, metrics: Metrics) -> None:
        self._tries = metrics.counter(own.OFFERING_TRIES)

    def tried(self, offering: Offering) -> None:
        """A PUT is about to be sent for it."""
        self._tries.labels(size_label(offering.size), offering.capacity_type).inc()


class Resting:
    """Seconds of rest that are left at the scrape; 0 for what may be tried again and has not been had since."""

    def __init__(self, cooldowns: Cooldowns) -> None:
        self._cooldowns = cooldowns

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As the registry asks at a scrape."""
        family = GaugeMetricFamily(
            own.OFFERING_COOLDOWN.name, own.OFFERING_COOLDOWN.help, labels=own.OFFERING_COOLDOWN.labels
        )
        for about, left in self._cooldowns.resting(asyncio.get_running_loop().time()):
            zone = ANY if about.zone is None else about.zone or REGIONAL
            family.add_metric((about.size or ANY, zone, about.capacity_type or ANY), left)
        yield family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The family's name, which the registry asks for before a loop runs."""
        yield GaugeMetricFamily(own.OFFERING_COOLDOWN.name, "")


def of_offerings(metrics: Metrics, cooldowns: Cooldowns) -> Tallies:
    """Make the families known; what counts goes into the tallies."""
    metrics.registry.register(Resting(cooldowns))
    return Tallies(metrics)
