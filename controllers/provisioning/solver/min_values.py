"""`minValues` of NodePools: of how many values of a label the instance types of a NodeClaim must leave a choice.

Pods that share a machine leave fewer types than each of them alone.
"""

from collections.abc import Iterable, Sequence

from provisioner.api.requirements import Requirements
from provisioner.api.zones import is_regional

from .candidates import Candidate
from .model import NodePool
from .offers import Offers
from .packing import Pattern
from .resources import total
from .work import Work


def has_min_values(pool: NodePool) -> bool:
    """Whether a NodePool requires a choice of types."""
    return any(wanted.min_values for wanted in pool.requirements.values())


def short_of(required: Requirements, kept: Iterable[Candidate]) -> str:
    """The first label of which candidates have fewer values than `minValues`, "" if there is none."""
    known = [*kept]
    for key, wanted in required.items():
        if wanted.min_values:
            found = {value for one in known for value in one.requirements.get(key, wanted).values}
            if len(found) < wanted.min_values:
                return key
    return ""


class Choices:
    """Which patterns of some works leave a choice of types in each NodePool; limits aside."""

    def __init__(self, works: Sequence[Work], offers: Offers) -> None:
        self._works = works
        # A type that is not chosen for some pods is a choice for them nevertheless.
        self._offers = offers.without({})
        self._known: dict[tuple[str, bool, Pattern], bool] = {}

    def leaves(self, chosen: Candidate, pattern: Pattern) -> bool:
        """Whether enough types besides a candidate's take a pattern; all in zones, or all outside them."""
        pool, regional = chosen.pool, is_regional(chosen.zone)
        if not has_min_values(pool):
            return True
        key = pool.name, regional, pattern
        if key not in self._known:
            works = [(self._works[group], units) for group, units in pattern]
            requested = total({name: n * units for name, n in work.requests.items()} for work, units in works)
            found = self._offers.of_pool(pool) & self._offers.roomy(requested)
            for work, _ in works:
                found &= self._offers.taking(work)
            alike = (one for one in self._offers.picked(found) if is_regional(one.zone) is regional)
            self._known[key] = not short_of(pool.requirements, alike)
        return self._known[key]
