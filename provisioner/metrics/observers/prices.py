"""Metrics of list and retail prices: their age, their number, and failed reads.

Source: docs/references/monitoring.md#names, docs/adr/0090-retail-prices.md.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from prometheus_client import Counter

from cloudprovider.cloud import PriceList
from cloudprovider.interface import ON_DEMAND, SPOT
from cloudprovider.prices import PriceFailure, RetailPrices
from controllers.provisioning.instances import InstanceTypes
from provisioner.metrics.definitions import own
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample


class PriceReads:
    """The counters of a `PriceWatch`."""

    def __init__(self, metrics: Metrics) -> None:
        self._failures = metrics.counter(own.PRICE_FAILURES)
        self._dropped = metrics.counter(own.PRICE_ROWS_DROPPED)

    def failed(self, reason: PriceFailure) -> None:
        """A read failed."""
        self._failures.labels(reason).inc()

    def dropped(self, rows: int) -> None:
        """So many rows of an answer were not usable."""
        self._dropped.inc(rows)


def register_price_metrics(
    metrics: Metrics,
    *,
    types: Callable[[], InstanceTypes | None],
    retail: Callable[[], RetailPrices | None],
    leading: Callable[[], bool],
    clock: Clock,
    errors: Counter,
) -> None:
    """Register the gauges, which the leader has."""

    def samples() -> Iterator[Sample]:
        if not leading():
            return
        known, read = types(), retail()
        made_at = _made_at(known.listed) if known is not None else None
        if made_at is not None:
            yield own.PRICE_AGE, (), max(0.0, (clock.now() - made_at).total_seconds())
        if read is not None:
            for kind, found in ((ON_DEMAND, read.on_demand), (SPOT, read.spot)):
                yield own.RETAIL_PRICES, (kind,), float(len(found))

    metrics.registry.register(GaugeCollector((own.PRICE_AGE, own.RETAIL_PRICES), samples, errors))


def _made_at(prices: PriceList) -> datetime | None:
    """When the prices were read, or the date of the packaged list; None for a list without a date."""
    if prices.read_at is not None or not prices.date:
        return prices.read_at
    return datetime.fromisoformat(prices.date).replace(tzinfo=UTC)
