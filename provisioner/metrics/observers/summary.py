"""A summary with quantiles, as Go's client has it: Python's exports none, and Karpenter's panels ask for them.

Quantiles are of the last hour's observations, at most a thousand of each label set; without any they are NaN,
as Go has it. Count and sum are of all.

Go's summaries forget after ten minutes, in which few GPU Nodes end.
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
MOST_OBSERVATIONS = 1000


class Summary:
    """A collector, for a registry, of one summary."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._series: dict[tuple[str, ...], _Series] = {}

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """One more observation, now."""
        self._series.setdefault(labels, _Series()).add(value, _now())

    def collect(self) -> Iterator[Metric]:
        """As the registry asks at a scrape."""
        metric = Metric(self._family.name, self._family.help, "summary")
        for values, series in self._series.items():
            labels = dict(zip(self._family.labels, values, strict=True))
            seen = series.recent(_now())
            for objective in OBJECTIVES:
                told = {**labels, "quantile": f"{objective:g}"}
                metric.add_sample(self._family.name, told, quantile(seen, objective))
            metric.add_sample(f"{self._family.name}_count", labels, series.count)
            metric.add_sample(f"{self._family.name}_sum", labels, series.total)
        yield metric

    def describe(self) -> Iterator[Metric]:
        """The family's name, which the registry asks for before a loop runs."""
        yield Metric(self._family.name, self._family.help, "summary")


class _Series:
    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._recent: deque[tuple[float, float]] = deque(maxlen=MOST_OBSERVATIONS)

    def add(self, value: float, now: float) -> None:
        self.count += 1
        self.total += value
        self._recent.append((now, value))

    def recent(self, now: float) -> list[float]:
        while self._recent and now - self._recent[0][0] > WINDOW_SECONDS:
            self._recent.popleft()
        return sorted(value for _, value in self._recent)


def quantile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all do not exceed; NaN of none."""
    if not ascending:
        return math.nan
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def _now() -> float:
    return asyncio.get_running_loop().time()
