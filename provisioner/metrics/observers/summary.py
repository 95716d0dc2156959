"""A Prometheus summary with quantiles, which the Python client does not export and Karpenter's dashboards need.

Quantiles cover the last hour, at most 1000 observations per label set, and are NaN without observations, as in Go.
Count and sum cover all observations. Go's default window of ten minutes is too short for GPU Nodes.

Source: docs/references/monitoring.md#python-exporter, docs/references/karpenter.md#metrics.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from provisioner.metrics.definitions import Family

OBJECTIVES = (0.0, 0.5, 0.9, 0.99, 1.0)
WINDOW_SECONDS = 3600.0
OBSERVATIONS_MAX = 1000


class Summary:
    """A custom collector of one summary."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._series: dict[tuple[str, ...], _Series] = {}

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """Add an observation at the current time."""
        self._series.setdefault(labels, _Series()).add(value, _now())

    def collect(self) -> Iterator[Metric]:
        """Called by the registry at each scrape."""
        metric = Metric(self._family.name, self._family.help, "summary")
        for values, series in self._series.items():
            labels = dict(zip(self._family.labels, values, strict=True))
            seen = series.recent(_now())
            for objective in OBJECTIVES:
                quantile_labels = {**labels, "quantile": f"{objective:g}"}
                metric.add_sample(self._family.name, quantile_labels, quantile(seen, objective))
            metric.add_sample(f"{self._family.name}_count", labels, series.count)
            metric.add_sample(f"{self._family.name}_sum", labels, series.total)
        yield metric

    def describe(self) -> Iterator[Metric]:
        """Called by the registry at registration, when no event loop runs."""
        yield Metric(self._family.name, self._family.help, "summary")


class _Series:
    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._recent: deque[tuple[float, float]] = deque(maxlen=OBSERVATIONS_MAX)

    def add(self, value: float, now: float) -> None:
        self.count += 1
        self.total += value
        self._recent.append((now, value))

    def recent(self, now: float) -> list[float]:
        while self._recent and now - self._recent[0][0] > WINDOW_SECONDS:
            self._recent.popleft()
        return sorted(value for _, value in self._recent)


def quantile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by at least this share of the values; NaN without values."""
    if not ascending:
        return math.nan
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def _now() -> float:
    return asyncio.get_running_loop().time()
