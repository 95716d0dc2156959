"""The metrics of a process, as a scrape returns them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from prometheus_client import Metric
from prometheus_client.samples import Sample

from provisioner.metrics.definitions import FAMILIES, LABELS, Family, own
from provisioner.runtime.metrics import Metrics

from .harness import Json, Sim

PHASE = own.PHASE_SECONDS.name
BY_NAME = {family.name: family for family in FAMILIES}


def declared(name: str) -> Family:
    """The family of an exposed name; the client removes `_total` from the names of counters."""
    return BY_NAME.get(name) or BY_NAME[f"{name}_total"]


class Numbers:
    """The registry of one process."""

    def __init__(self) -> None:
        self.metrics = Metrics()

    def families(self) -> list[Metric]:
        """The metric families, as exposed."""
        return list(self.metrics.registry.collect())

    def samples(self, name: str, /, **labels: str) -> Iterator[Sample]:
        """All samples of that name that have at least these labels."""
        for family in self.families():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    yield sample

    def total(self, name: str, /, **labels: str) -> float:
        """The sum of all samples that have at least these labels; 0 without any, as `sum(…)` of a counter."""
        return sum(sample.value for sample in self.samples(name, **labels))

    def one(self, name: str, /, **labels: str) -> Sample:
        """The only sample that has at least these labels."""
        (sample,) = self.samples(name, **labels)
        return sample

    def undeclared(self) -> list[tuple[str, str, str]]:
        """Sample, label and value where the value is not in the label's closed set."""
        found = list[tuple[str, str, str]]()
        for family in self.families():
            reasons = declared(family.name).reasons
            for sample in family.samples:
                for label, value in sample.labels.items():
                    known = LABELS[label].values or (reasons if label == "reason" else ())
                    if known and value not in known:
                        found.append((sample.name, label, value))
        return found

    def about(self, name: str) -> list[Sample]:
        """All samples with this value in any label."""
        return [sample for family in self.families() for sample in family.samples if name in sample.labels.values()]


async def start(sim: Sim, name: str = "ctl0", **options: Any) -> Numbers:
    """Start a controller; returns its metrics."""
    numbers = Numbers()
    await sim.start_controller(name, metrics=numbers.metrics, **options)
    return numbers


def at(obj: Json | None, *path: str) -> datetime:
    """A time on an object, by its path, or by a condition's type."""
    assert obj is not None
    if path[0] == "condition":
        (found,) = (one for one in obj["status"]["conditions"] if one["type"] == path[1])
        text = found["lastTransitionTime"]
    else:
        text = obj["metadata"][path[0]]
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def bucket_of(numbers: Numbers, name: str, **labels: str) -> tuple[float, float]:
    """The bounds of the bucket with the only observation."""
    below = 0.0
    for sample in numbers.samples(f"{name}_bucket", **labels):
        bound = float(sample.labels["le"])
        if sample.value:
            return below, bound
        below = bound
    raise AssertionError(f"no observation of {name} {labels}")
