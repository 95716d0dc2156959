"""What a scrape of a process would say, for stories to read."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.samples import Sample

from provisioner.runtime.metrics import Metrics


class Numbers:
    """The registry of one process."""

    def __init__(self) -> None:
        self.metrics = Metrics()

    def families(self) -> list[Metric]:
        """As they are exposed."""
        return list(self.metrics.registry.collect())

    def samples(self, name: str, /, **labels: str) -> Iterator[Sample]:
        """Every sample of that name that has these labels, among others."""
        for family in self.families():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    yield sample

    def total(self, name: str, /, **labels: str) -> float:
        """The sum of all samples that have these labels; 0 without any, as `sum(…)` of a counter would be."""
        return sum(sample.value for sample in self.samples(name, **labels))

    def one(self, name: str, /, **labels: str) -> Sample:
        """The only sample that has these labels."""
        (sample,) = self.samples(name, **labels)
        return sample

    def about(self, name: str) -> list[Sample]:
        """Every sample with this value in any label."""
        return [sample for family in self.families() for sample in family.samples if name in sample.labels.values()]
