"""Gauges of NodeClaims: phase, conditions, and which claims are stuck.

They are read from the cache at each scrape, so a deleted claim has no series. Only the leader exports them, so that a
sum over replicas counts each claim once.

Source: https://github.com/awslabs/operatorpkg/blob/main/status/controller.go (names, labels, values),
docs/references/monitoring.md#alerts-and-panels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from cloudprovider.interface import Offering
from controllers.model.ownership import managed
from controllers.model.reported import reported
from controllers.planner.plan import phase_of
from provisioner.api import labels
from provisioner.api.conditions import DEPENDENTS, INITIALIZED, READY
from provisioner.api.nodeclaim import NodeClaim, Phase
from provisioner.api.reasons import AWAITING
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import REGIONAL
from provisioner.runtime.clock import Clock

from .collector import Sample
from .label_values import LabelValues

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

Obstacle = tuple[str, str]


class ClaimGauges:
    """Samples of `claims()` while `leading()`.

    `pool_name`: the name of a claim's agent pool; `offerings_of`: the offerings that it allows, in order of preference.
    """

    def __init__(
        self,
        claims: Callable[[], Iterable[NodeClaim]],
        label_values: LabelValues,
        clock: Clock,
        leading: Callable[[], bool],
        *,
        pool_name: Callable[[NodeClaim], str],
        offerings_of: Callable[[NodeClaim], Sequence[Offering]],
    ) -> None:
        self._claims = claims
        self._pool_name = pool_name
        self._offerings_of = offerings_of
        self._label_values = label_values
        self._clock = clock
        self._leading = leading

    def samples(self) -> Iterator[Sample]:
        """All samples."""
        if not self._leading():
            return
        now = self._clock.now()
        phases, overdue, oldest, stuck = Counter[Phase](), Counter[str](), dict[Obstacle, float](), Counter[Obstacle]()
        for claim in self._claims():
            if not managed(claim):
                continue
            phases[phase_of(claim)] += 1
            late = reported(claim).overdue
            overdue.update(c.type for c in claim.status.conditions if c.type in late)
            if not claim.deleting and claim.condition(READY, "True") is None:
                obstacle = self._first_obstacle(claim)
                stuck[obstacle] += 1
                oldest[obstacle] = max(oldest.get(obstacle, 0.0), _seconds(_not_ready_since(claim), now))
            yield from self._of_one(claim, now)
        yield from ((own.CLAIMS, (phase,), float(phases[phase])) for phase in Phase)
        yield from ((own.OVERDUE, (name,), float(count)) for name, count in overdue.items())
        yield from ((own.NOT_READY, obstacle, float(count)) for obstacle, count in stuck.items())
        yield from ((own.NOT_READY_OLDEST, obstacle, age) for obstacle, age in oldest.items())

    def _of_one(self, claim: NodeClaim, now: datetime) -> Iterator[Sample]:
        classes = self._label_values.classes(claim)
        for condition in claim.status.conditions:
            values = (
                NAMESPACE,
                claim.name,
                condition.type,
                condition.status,
                self._label_values.reason(condition.reason),
                *classes,
            )
            yield karpenter.CONDITION_COUNT, values, 1.0
            yield karpenter.CONDITION_SECONDS, values, _seconds(condition.last_transition_time, now)
        info = (claim.name, self._pool_name(claim), claim.status.node_name, *self._machine(claim))
        yield own.CLAIM_INFO, info, 1.0
        if claim.metadata.deletion_timestamp is not None:
            duration = _seconds(claim.metadata.deletion_timestamp, now)
            yield karpenter.TERMINATION_CURRENT, (NAMESPACE, claim.name, *classes), duration

    def _machine(self, claim: NodeClaim) -> tuple[str, str, str]:
        """Size, zone and capacity type of the instance, or of the first choice while there is none."""
        # The only allowed size is a label before the machine exists; the capacity type is written with the machine.
        offerings = () if labels.CAPACITY_TYPE in claim.metadata.labels else self._offerings_of(claim)
        if not offerings:
            return self._label_values.machine(claim)
        return self._label_values.size(offerings[0].size), offerings[0].zone or REGIONAL, offerings[0].capacity_type

    def _first_obstacle(self, claim: NodeClaim) -> Obstacle:
        """The first condition before Ready that is not True, and its reason."""
        for kind in DEPENDENTS:
            condition = claim.condition(kind)
            if condition is None:
                return kind, AWAITING
            if condition.status != "True":
                return kind, self._label_values.reason(condition.reason)
        return INITIALIZED, AWAITING


def _not_ready_since(claim: NodeClaim) -> datetime:
    lost = claim.condition(INITIALIZED, "False")
    return lost.last_transition_time if lost is not None else claim.metadata.creation_timestamp


def _seconds(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
