"""A collector of gauges whose series are created at each scrape, so that deleted objects have no series.

An error while reading is logged and counted; the scrape contains all other families.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Counter
from prometheus_client.metrics_core import GaugeMetricFamily, UntypedMetricFamily

from provisioner.metrics.definitions import Family
from provisioner.runtime.logs import get_logger

Sample = tuple[Family, tuple[str, ...], float]

log = get_logger("metrics")


class GaugeCollector:
    """A custom collector of gauges. `samples` yields the samples of all `families`."""

    def __init__(self, families: Sequence[Family], samples: Callable[[], Iterable[Sample]], errors: Counter) -> None:
        self._families = tuple(families)
        self._samples = samples
        self._errors = errors

    def collect(self) -> Iterator[GaugeMetricFamily | UntypedMetricFamily]:
        """Called by the registry at each scrape."""
        found = {family.name: _empty(family) for family in self._families}
        try:
            for family, labels, value in self._samples():
                found[family.name].add_metric(labels, value)
        except Exception:
            self._errors.inc()
            log.exception("failed to collect metrics")
        yield from found.values()

    def describe(self) -> Iterator[GaugeMetricFamily | UntypedMetricFamily]:
        """Called by the registry at registration, when no event loop runs."""
        return map(_empty, self._families)


def _empty(family: Family) -> GaugeMetricFamily | UntypedMetricFamily:
    family_type = UntypedMetricFamily if family.kind == "untyped" else GaugeMetricFamily
    return family_type(family.name, family.help, labels=family.labels)
