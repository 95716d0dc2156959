"""Families whose series are made anew at each scrape: what is gone has no series any longer, by construction.

A scrape that cannot read something serves all the rest, and counts that.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Counter
from prometheus_client.metrics_core import GaugeMetricFamily, UntypedMetricFamily

from provisioner.metrics.definitions import Family
from provisioner.runtime.logs import get_logger

Sample = tuple[Family, tuple[str, ...], float]

log = get_logger("observation")


class GaugeCollector:
    """A collector, for a registry, of gauges alone. `read` yields all samples of all `families`."""

    def __init__(self, families: Sequence[Family], read: Callable[[], Iterable[Sample]], errors: Counter) -> None:
        self._families = tuple(families)
        self._read = read
        self._errors = errors

    def collect(self) -> Iterator[GaugeMetricFamily | UntypedMetricFamily]:
        """As the registry asks at a scrape."""
        found = {family.name: _empty(family) for family in self._families}
        try:
            for family, labels, value in self._read():
                found[family.name].add_metric(labels, value)
        except Exception:
            self._errors.inc()
            log.exception("metrics could not be read")
        yield from found.values()

    def describe(self) -> Iterator[GaugeMetricFamily | UntypedMetricFamily]:
        """The families' names, which the registry asks for before a loop runs."""
        return map(_empty, self._families)


def _empty(family: Family) -> GaugeMetricFamily | UntypedMetricFamily:
    made = UntypedMetricFamily if family.kind == "untyped" else GaugeMetricFamily
    return made(family.name, family.help, labels=family.labels)
