"""What the attempts at a decision read, and what one of them leads to."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .claims import Claims
from .exclusion import Exclusion
from .host_index import HostIndex
from .model import Decision, ExistingNode, Pod, Snapshot
from .offers import Offers
from .running import RunningPods
from .selection import Selection
from .turns import Turn
from .work import Work


class Cluster(NamedTuple):
    """What all decisions read."""

    snapshot: Snapshot
    offers: Offers
    selection: Selection
    claims: Claims
    existing: HostIndex


class Problem(NamedTuple):
    """What all attempts at one decision read.

    `parts`: the pods, those that are decided together. `among`: the machines that stay, `takers`: those that take pods,
    `running`: the pods on all that stay. `exclusion`: which pods are kept off a machine by those on it. `scarce`: the
    quotas that limit what is bought. `turn`: how the pods that the steps do not suffice for are placed one kind after
    the other, None if they are not.
    """

    parts: Sequence[Sequence[Pod]]
    among: int
    takers: int
    running: RunningPods
    exclusion: Exclusion
    leaving: list[ExistingNode]
    scarce: frozenset[str] = frozenset()
    turn: Turn | None = None


class Outcome(NamedTuple):
    """`decision`: without the reasons of the works that have no place.

    `unmet`: for the pods of each spec, by identity, the candidates whose types do not meet `minValues` for them.
    `ended`: whether the steps did not suffice for all pods. `exceeded`: the quotas of which its machines need more than
    is left, `left`: of those that limited it. `set_aside`: why pods were left out.
    """

    decision: Decision
    failed: list[Work]
    unmet: Mapping[int, int]
    ended: bool
    exceeded: frozenset[str] = frozenset()
    left: Mapping[str, int] = {}
    set_aside: Mapping[str, str] = {}

    @property
    def left_pods(self) -> frozenset[str]:
        """The pods that have no place."""
        return frozenset(
            {*self.decision.errors, *(name for work in self.failed for unit in work.units for name in unit)}
        )

    @property
    def bought_pods(self) -> frozenset[str]:
        """The pods for which machines are bought."""
        return frozenset(name for machine in self.decision.machines for name in machine.pods)

    @property
    def rank(self) -> tuple[int, float, int]:
        """Fewest pods left, then the least price, then fewest machines."""
        return len(self.left_pods), round(self.decision.order_price, 6), len(self.decision.machines)
