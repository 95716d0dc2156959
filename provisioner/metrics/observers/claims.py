"""NodeClaims as a scrape finds them: where they are in their life, what each condition says, who is stuck.

Read off the cache at that moment, so a claim that is gone has no series; only the leader shows them, so that
a sum over replicas counts each claim once.

Source: https://github.com/awslabs/operatorpkg/blob/main/status/controller.go (names, labels, values),
docs/references/monitoring.md#alerts-and-panels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from cloudprovider.interface import Offering
from controllers.model import deadlines
from controllers.model.ownership import managed
from controllers.planner.plan import Phase, phase_of
from provisioner.api import labels
from provisioner.api.conditions import DEPENDENTS, INITIALIZED, READY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.reasons import AWAITING
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import REGIONAL
from provisioner.runtime.clock import Clock

from .collector import Sample
from .label_values import LabelValues, reason_label, size_label

FAMILIES = (
    karpenter.CONDITION_COUNT,
    karpenter.CONDITION_SECONDS,
    karpenter.TERMINATION_CURRENT,
    own.CLAIMS,
    own.CLAIM_INFO,
    own.NOT_READY,
    own.NOT_READY_OLDEST,
    own.OVERDUE,
)
NAMESPACE = ""

Stuck = tuple[str, str]


class Claims:
    """Reads `claims()` when asked, if `leading()`.

    `pool_name`: what a claim's agent pool is called; `wanted`: what it may be had as, the first choice first.
    """

    def __init__(
        self,
        claims: Callable[[], Iterable[NodeClaim]],
        label_values: LabelValues,
        clock: Clock,
        leading: Callable[[], bool],
        *,
        pool_name: Callable[[NodeClaim], str],
        wanted: Callable[[NodeClaim], Sequence[Offering]],
    ) -> None:
        self._claims = claims
        self._pool_name = pool_name
        self._wanted = wanted
        self._label_values = label_values
        self._clock = clock
        self._leading = leading

    def read(self) -> Iterator[Sample]:
        """All samples."""
        if not self._leading():
            return
        now = self._clock.now()
        phases, overdue, oldest, stuck = Counter[Phase](), Counter[str](), dict[Stuck, float](), Counter[Stuck]()
        for claim in self._claims():
            if not managed(claim):
                continue
            phases[phase_of(claim)] += 1
            overdue.update(c.type for c in claim.status.conditions if deadlines.told(c.message))
            if not claim.deleting and claim.condition(READY, "True") is None:
                about = first_obstacle(claim)
                stuck[about] += 1
                oldest[about] = max(oldest.get(about, 0.0), _seconds(_unusable_since(claim), now))
            yield from self._of_one(claim, now)
        yield from ((own.CLAIMS, (phase,), float(phases[phase])) for phase in Phase)
        yield from ((own.OVERDUE, (name,), float(count)) for name, count in overdue.items())
        yield from ((own.NOT_READY, about, float(count)) for about, count in stuck.items())
        yield from ((own.NOT_READY_OLDEST, about, age) for about, age in oldest.items())

    def _of_one(self, claim: NodeClaim, now: datetime) -> Iterator[Sample]:
        classes = self._label_values.classes(claim)
        for said in claim.status.conditions:
            about = (NAMESPACE, claim.name, said.type, said.status, reason_label(said.reason), *classes)
            yield karpenter.CONDITION_COUNT, about, 1.0
            yield karpenter.CONDITION_SECONDS, about, _seconds(said.last_transition_time, now)
        known = (claim.name, self._pool_name(claim), claim.status.node_name, *self._machine(claim))
        yield own.CLAIM_INFO, known, 1.0
        if claim.metadata.deletion_timestamp is not None:
            lasts = _seconds(claim.metadata.deletion_timestamp, now)
            yield karpenter.TERMINATION_CURRENT, (NAMESPACE, claim.name, *classes), lasts

    def _machine(self, claim: NodeClaim) -> tuple[str, str, str]:
        """Size, zone and capacity type of its machine; of what it would have first, while it has none."""
        wanted = () if labels.INSTANCE_TYPE in claim.metadata.labels else self._wanted(claim)
        if not wanted:
            return self._label_values.machine(claim)
        return size_label(wanted[0].size), wanted[0].zone or REGIONAL, wanted[0].capacity_type


def first_obstacle(claim: NodeClaim) -> Stuck:
    """The first condition on the way to Ready that is not True, and its reason."""
    for kind in DEPENDENTS:
        told = claim.condition(kind)
        if told is None:
            return kind, AWAITING
        if told.status != "True":
            return kind, reason_label(told.reason)
    return INITIALIZED, AWAITING


def _unusable_since(claim: NodeClaim) -> datetime:
    lost = claim.condition(INITIALIZED, "False")
    return lost.last_transition_time if lost is not None else claim.metadata.creation_timestamp


def _seconds(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
