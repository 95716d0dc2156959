"""Metrics of voluntary disruption, with Karpenter's names: searches, commands, and the budgets of NodePools.

Gauges are computed at each scrape, so that a deleted NodePool has no series, and only by the leader, which is the
process that knows the pods; candidates that are empty, or for consolidation, are those of the last search.

Source: docs/references/karpenter.md#metrics, docs/references/karpenter.md#disruption-budgets.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Counter

from controllers.disruption.command import Command
from controllers.disruption.commands_under_way import Replacement
from controllers.disruption.drift import is_drifted
from controllers.disruption.machine import Machine, MachineCount, budget_use, consolidate_after
from provisioner.api.causes import CAUSE_OF, CAUSES, REASONS, Reason
from provisioner.api.nodepool import NodePool
from provisioner.metrics.definitions import LABELS, karpenter, own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .collector import GaugeCollector, Sample
from .guard import guarded
from .label_values import BoundedNames

FAMILIES = (
    karpenter.DISRUPTION_ELIGIBLE,
    karpenter.NODEPOOLS_ALLOWED_DISRUPTIONS,
    karpenter.NODEPOOLS_CONSUMING_BUDGETS,
)


class DisruptionMetrics:
    """Counts the decisions of the controllers of disruption. `errors` counts what failed here.

    `node_pools()`: those of this controller, while this process disrupts their machines. `count(pool)`: of all of
    them. `drifted(pool)`: those that have drifted.
    """

    def __init__(
        self,
        metrics: Metrics,
        errors: Counter,
        clock: Clock,
        *,
        node_pools: Callable[[], Iterable[NodePool]],
        count: Callable[[NodePool], MachineCount],
        drifted: Callable[[NodePool], Iterable[Machine]],
    ) -> None:
        self._errors = errors
        self._clock = clock
        self._node_pools = node_pools
        self._count = count
        self._drifted = drifted
        self._names = BoundedNames()
        self._candidates: dict[tuple[Reason, str], int] = {}
        self._duration = metrics.histogram(karpenter.DISRUPTION_EVALUATION)
        self._decisions = metrics.counter(karpenter.DISRUPTION_DECISIONS)
        self._rejected = metrics.counter(karpenter.DISRUPTION_FAILED_VALIDATIONS)
        self._undone = metrics.counter(karpenter.DISRUPTION_FAILURES)
        self._saving = metrics.counter(own.CONSOLIDATION_SAVING)
        metrics.registry.register(GaugeCollector(FAMILIES, self._samples, errors))
        # Series exist from the start, so that `increase()` sees the first event.
        for kind in filter(None, LABELS["consolidation_type"].values):
            self._rejected.labels(kind)

    def evaluated(self, reason: Reason, seconds: float) -> None:
        """The machines that can be disrupted for this reason were searched for."""
        with guarded(self._errors):
            self._duration.labels(_label(reason), "empty" if reason == "Empty" else "").observe(seconds)

    def candidates(self, reason: Reason, machines: int, node_pool: str = "") -> None:
        """So many machines, of one NodePool or of all, could be disrupted in the last search but for budgets."""
        self._candidates[reason, node_pool] = machines

    def decided(self, command: Command) -> None:
        """A command has begun: it is written, or its machines are removed."""
        with guarded(self._errors):
            self._decisions.labels(command.decision, _label(command.reason), command.consolidation_type).inc()
            if command.reason == "Underutilized":
                self._saving.inc(max(0.0, command.saving))

    def rejected(self, command: Command) -> None:
        """The validation of a command kept its machines."""
        with guarded(self._errors):
            self._rejected.labels(command.consolidation_type).inc(len(command.machines))

    def undone(self, command: Replacement) -> None:
        """A command was undone."""
        with guarded(self._errors):
            self._undone.labels("replace", _label(command.reason), command.consolidation_type).inc()

    def _samples(self) -> Iterator[Sample]:
        now, pools = self._clock.now(), tuple(self._node_pools())
        if not pools:
            return
        current = {"", *(pool.name for pool in pools if consolidate_after(pool) is not None)}
        self._candidates = {key: count for key, count in self._candidates.items() if key[1] in current}
        eligible = dict.fromkeys(REASONS, 0)
        for (reason, _), count in self._candidates.items():
            eligible[reason] += count
        for pool in pools:
            eligible["Drifted"] += sum(is_drifted(one) and not one.blocked_eventually for one in self._drifted(pool))
            machines = self._count(pool)
            (name,) = self._names(pool.name)
            for reason in REASONS if name != OTHER else ():  # several NodePools would have the same series
                use = budget_use(pool, machines, reason, now)
                if use.allowed is not None:
                    yield karpenter.NODEPOOLS_ALLOWED_DISRUPTIONS, (name, reason), float(use.allowed)
                    yield karpenter.NODEPOOLS_CONSUMING_BUDGETS, (name, reason), float(use.used)
        yield from ((karpenter.DISRUPTION_ELIGIBLE, (_label(of),), float(count)) for of, count in eligible.items())


def _label(reason: Reason) -> str:
    return CAUSES[CAUSE_OF[reason]].disrupted
