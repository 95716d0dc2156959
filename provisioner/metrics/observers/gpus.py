"""Gauges of the GPUs of machines, judged as the readiness gate judges them: by node class, and with the cause.

They are computed at each scrape, from the caches.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Counter

from cloudprovider.cloud import Cloud
from controllers.model.facts import Facts
from controllers.node.health.diagnosis_reads import diagnosis
from controllers.nodeclaim.lifecycle.gpu_resources import state_of
from provisioner.api import reasons
from provisioner.metrics.definitions import own
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample
from .label_values import LabelValues

FAMILIES = (own.GPU_DEVICES, own.GPU_GATES_CLOSED, own.READINESS_OVERDUE)
UNKNOWN = "Unknown"


def register_gpu_metrics(
    metrics: Metrics, cloud: Cloud, facts: Callable[[], Iterable[Facts]], leading: Callable[[], bool], errors: Counter
) -> None:
    """`facts()`: of all keys. Only the leader exports the gauges. `errors` counts failed collections."""
    label_values = LabelValues(cloud)

    def samples() -> Iterator[Sample]:
        return _samples(facts(), label_values) if leading() else iter(())

    metrics.registry.register(GaugeCollector(FAMILIES, samples, errors))


def _samples(found: Iterable[Facts], label_values: LabelValues) -> Iterator[Sample]:
    overdue = 0
    devices, closed = Tally[tuple[str, str, str]](), dict.fromkeys(own.GATE_REASONS, 0)
    for f in found:
        claim, node = f.claim, f.node
        if claim is None or node is None or claim.deleting:
            continue
        overdue += any(one.reason == reasons.READINESS_TIMEOUT for one in claim.status.conditions)
        state = state_of(f, claim, node)
        if not state.expected:
            continue
        nodepool = label_values.nodepool(claim.metadata.labels)
        size = label_values.size(f.instance.size if f.instance is not None else "")
        devices["expected", nodepool, size] += state.expected
        devices["allocatable", nodepool, size] += min(state.allocatable, state.expected)
        if state.short and node.ready:
            cause = diagnosis(f)
            closed[cause.cause.value if cause is not None else UNKNOWN] += 1
    yield own.READINESS_OVERDUE, (), float(overdue)
    yield from ((own.GPU_DEVICES, about, float(count)) for about, count in devices.items())
    yield from ((own.GPU_GATES_CLOSED, (reason,), float(count)) for reason, count in closed.items())
