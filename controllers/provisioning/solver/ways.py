"""Ways to decide: orders of the same choices. None is the best one for all demands, so that the best result counts.

The last ones repair a result: what it left, or what it bought although others have paid room, comes first.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Ways that exchange the choices of groups are tried for so many groups and pods: they matter where few compete.
FEW_GROUPS = 30
FEW_PODS = 300
# How often the groups that a result left come first in another attempt.
REPAIRS = 3


class Way(NamedTuple):
    """The orders of one attempt.

    `small_first`: room on existing machines goes to small pods first. `rare_first`: to pods that the fewest of them
    take, and of those to pods whose own machines are dearest. `one_by_one`: each group with domains gets its machines
    before the next one chooses domains. `within_limits`: domains are chosen for what limits still allow.
    `cheap_domains`: of the domains that a spread allows, the cheapest one is chosen instead of the least loaded one.
    `lean`: of equally loaded domains the one with this value of a label, so that groups share machines there, or leave
    others to those that need them.
    `few_domains`: as many pods of a group in one domain as a spread allows, so that they share machines there.
    `first`: the pods whose groups are placed before all others.
    """

    small_first: bool = False
    rare_first: bool = False
    one_by_one: bool = False
    within_limits: bool = False
    cheap_domains: bool = False
    lean: str = ""
    few_domains: bool = False
    first: frozenset[str] = frozenset()

    def puts_first(self, unit: Iterable[str]) -> bool:
        """Whether pods are placed before all others."""
        return not self.first.isdisjoint(unit)


class Seen(NamedTuple):
    """What the first attempt, with no order changed, has shown.

    `scarce`: pods are left. `domains`: pods have topology constraints. `limited`: something limits what is bought.
    `hosts`: there are existing machines, `shared`: pods were placed on them. `zones`: of the machines that are bought,
    and those that pods without a place require.
    """

    groups: int
    pods: int
    scarce: bool
    domains: bool
    limited: bool
    hosts: bool
    shared: bool
    zones: tuple[str, ...]

    @property
    def few(self) -> bool:
        """Whether ways that exchange the choices of groups are tried."""
        return self.groups <= FEW_GROUPS and self.pods <= FEW_PODS


def further(seen: Seen) -> Iterator[Way]:
    """The ways that may lead to a better result."""
    if seen.scarce and seen.hosts:
        yield Way(small_first=True)
    if seen.domains:
        yield Way(one_by_one=True)
    if seen.scarce and seen.domains and seen.limited:
        # The cheapest domain may be one in which limits allow a few machines only.
        yield Way(within_limits=True)
    if not seen.few or not (seen.scarce or seen.zones):
        return
    if seen.shared and seen.groups > 1:
        yield Way(rare_first=True)
        if seen.domains:
            yield Way(rare_first=True, one_by_one=True)
    if seen.domains and seen.zones:
        yield Way(cheap_domains=True)
        yield from (Way(few_domains=True, lean=zone) for zone in seen.zones)
        if seen.groups > 1:
            yield from (Way(lean=zone) for zone in seen.zones)
