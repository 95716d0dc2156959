"""Usage and limits of NodePools, with Karpenter's names.

Source: docs/references/karpenter.md#metrics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import Counter

from controllers.nodepool.cost_limit import limits_of
from controllers.nodepool.nodepool import is_ours
from provisioner.api.nodepool import NodePool
from provisioner.api.quantity import parse_quantity
from provisioner.metrics.definitions import LABELS, Family, karpenter
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample
from .label_values import BoundedNames

FAMILIES = (karpenter.NODEPOOLS_USAGE, karpenter.NODEPOOLS_LIMIT)


def register_nodepool_metrics(
    metrics: Metrics, pools: Callable[[], Iterable[NodePool]], leading: Callable[[], bool], errors: Counter
) -> None:
    """Export the NodePools of this controller at each scrape of the leader. `errors` counts failed collections."""
    names = BoundedNames()

    def samples() -> Iterator[Sample]:
        for pool in pools() if leading() else ():
            if is_ours(pool):
                (name,) = names(pool.name)
                if name == OTHER:
                    continue  # several NodePools would have the same series
                yield from _amounts(karpenter.NODEPOOLS_USAGE, pool.status.resources, name)
                yield from _amounts(karpenter.NODEPOOLS_LIMIT, limits_of(pool), name)

    metrics.registry.register(GaugeCollector(FAMILIES, samples, errors))


def _amounts(family: Family, resources: Mapping[str, str | int | float], pool: str) -> Iterator[Sample]:
    for resource, amount in resources.items():
        # Karpenter's spelling.
        written = resource.replace("-", "_")
        if written not in LABELS["resource_type"].values:
            continue
        try:
            yield family, (written, pool), float(parse_quantity(amount))
        except ValueError:
            continue
