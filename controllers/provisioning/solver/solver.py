"""`solve`: the cheapest fleet that takes the most pending pods, as a pure function of one snapshot.

The order of decisions: room on existing nodes and on NodeClaims without a Node first, because it is paid for; then new
machines, from the NodePools of highest weight first. Among fleets that place the same pods the least price per hour
wins, then fewer machines, then names. A preference of a pod is given up only when the pod cannot be placed with it.
"""

from typing import NamedTuple

from . import reasons
from .budget import Budget
from .buying import purchases
from .candidates import Candidate, candidates
from .claims import Claims
from .hosts import Hosts
from .model import Decision, NewMachine, Snapshot
from .nodes import Host, existing_host, planned_host
from .offers import Offers
from .placement import bundled, follows, is_counted, joins, must_join, with_domains
from .topology import Domains, Selection
from .work import Unit, Work, grouped


def solve(snapshot: Snapshot) -> Decision:
    """Where each pending pod goes, which machines to buy for the others, and why the rest stays pending."""
    offers = Offers(candidates(snapshot), snapshot.well_known)
    shared = _Shared(snapshot, offers, Selection(), Claims(snapshot, offers))
    decisions = [_Solver(shared).decide()]
    scarce, domains = bool(decisions[0].errors), any(pod.spec.topology for pod in snapshot.pods)
    if scarce and snapshot.nodes:
        # Room on existing nodes that is given to small pods first takes more of them.
        decisions.append(_Solver(shared, small_first=True).decide())
    if domains:
        # Domains are chosen before machines; group by group, later groups prefer the domains of planned machines.
        decisions.append(_Solver(shared, one_by_one=True).decide())
    if scarce and domains and (snapshot.max_new is not None or any(pool.limits for pool in snapshot.node_pools)):
        # The cheapest domain may be one in which limits allow a few machines only.
        decisions.append(_Solver(shared, within_limits=True).decide())
    return min(decisions, key=lambda one: (len(one.errors), round(one.price, 6), len(one.machines)))


class _Shared(NamedTuple):
    """What all attempts at one decision read."""

    snapshot: Snapshot
    offers: Offers
    selection: Selection
    claims: Claims


class _Solver:
    """The state of one attempt: machines with room, machines planned so far, and pods by domain."""

    def __init__(
        self,
        shared: _Shared,
        *,
        small_first: bool = False,
        one_by_one: bool = False,
        within_limits: bool = False,
    ) -> None:
        self._snapshot, self._offers, self._selection, self._claims = shared
        self._small_first = small_first
        self._one_by_one = one_by_one
        self._within_limits = within_limits
        snapshot = self._snapshot
        existing = [existing_host(node, snapshot.daemons, snapshot.well_known) for node in snapshot.nodes]
        self._hosts = Hosts(existing, self._selection)
        self._domains = Domains(self._selection)
        self._budget = Budget(snapshot)
        for host in self._hosts.existing:
            labels = host.labels
            for spec, terms, pods in host.present:
                self._domains.add(spec, terms, labels, pods)

    def decide(self) -> Decision:
        """Place pods under their strictest constraints first; those that are left give up one preference a round."""
        pending = grouped(self._snapshot.pods)
        failed: list[Work] = []
        while pending:
            for work in pending:
                while work.level + 1 < len(work.views) and not self._is_possible(work):
                    work.relax()
            left = self._round(pending)
            pending = [work for work in left if work.level + 1 < len(work.views)]
            failed += [work for work in left if work.level + 1 == len(work.views)]
            for work in pending:
                work.relax()
        return self._decision(failed)

    def _is_possible(self, work: Work) -> bool:
        """Whether any machine takes one pod under the active constraints, limits aside."""
        return self._weight(work) is not None or self._hosts.has_room(work.spec, work.view, work.requests)

    def _round(self, pending: list[Work]) -> list[Work]:
        """Place pods under their active constraints; returns those that are left, undivided."""
        order = sorted(pending, key=Work.largest_first)
        counted, following, rest = list[Work](), list[Work](), list[Work]()
        for work in order:
            if not self._domains.concerns(work.spec, work.view.topology) and is_counted(work, order, self._selection):
                counted.append(work)
            elif follows(work, self._selection):
                following.append(work)
            else:
                rest.append(work)
        parts = [counted, *([one] for one in rest), following] if self._one_by_one else [counted, rest, following]
        return [work for part in parts for work in self._place(part)]

    def _place(self, group: list[Work]) -> list[Work]:
        parts: list[Work] = []
        left: list[Work] = []

        def keep(work: Work, units: list[Unit]) -> None:
            if units:
                left.append(work.again(units))

        for work in group:
            one = bundled(work, self._hosts, self._selection)
            budget = self._budget if self._within_limits else None
            assigned, outside = with_domains(one, self._domains, self._offers, self._hosts, budget)
            parts += assigned
            keep(one, outside)
        for part in sorted(parts, key=self._on_existing):
            self._fill_hosts(part)
        self._buy(parts)
        for part in parts:
            keep(part, part.units)
        return left

    # --- existing machines ------------------------------------------------------------------------------------------

    def _on_existing(self, work: Work) -> tuple[bool, int, Unit]:
        """Pods for which nothing can be bought come first, small ones first, so that most of them find room."""
        can_buy = self._weight(work) is not None
        size = work.devices * 1_000_000 + work.requests.get("cpu", 0)
        return can_buy, -size if can_buy and not self._small_first else size, work.units[0]

    def _fill_hosts(self, work: Work) -> None:
        joining = must_join(work, self._hosts, self._selection)
        for host in [*self._hosts.with_room(work.spec, work.view, work.requests)]:
            if not work.units:
                return
            if not joining or joins(work, host, self._selection):
                room = host.room(work.spec, work.view, work.requests, len(work.units), self._selection)
                self._put(host, work, room)

    def _put(self, host: Host, work: Work, count: int) -> None:
        if count <= 0:
            return
        units, work.units = work.units[:count], work.units[count:]
        view, pods = work.view, [name for unit in units for name in unit]
        self._hosts.place(host, work.spec, view, {name: n * count for name, n in work.requests.items()}, pods)
        if not work.domain:
            self._domains.add(work.spec, view.topology, host.labels, len(pods))

    # --- new machines -----------------------------------------------------------------------------------------------

    def _weight(self, work: Work, below: int | None = None) -> int | None:
        """The weight of the heaviest NodePools with a machine for these pods, below a weight that is exhausted."""
        return self._offers.weight(self._offers.fitting(work.spec, work.view, work.requests), below)

    def _buy(self, works: list[Work]) -> None:
        """Buy machines; where the limits of a NodePool end, the NodePools of the next lower weight follow."""
        exhausted: dict[int, int] = {}
        while True:
            weights: dict[int, int] = {}
            for number, work in enumerate(works):
                if work.units and not must_join(work, self._hosts, self._selection):
                    weight = self._weight(work, exhausted.get(number))
                    if weight is not None:
                        weights[number] = weight
            if not weights:
                return
            bought = purchases(
                [works[number] for number in weights],
                [*weights.values()],
                self._offers,
                selection=self._selection,
                budget=self._budget,
            )
            for candidate, contents in bought:
                self._plan(candidate, contents)
            exhausted |= weights

    def _plan(self, candidate: Candidate, contents: list[tuple[Work, int]]) -> None:
        host = planned_host(f"~{len(self._hosts.planned):06}", candidate, self._snapshot.well_known)
        self._hosts.plan(host)
        for work, count in contents:
            self._put(host, work, count)
        self._budget.take(candidate)

    def _decision(self, failed: list[Work]) -> Decision:
        errors: dict[str, str] = {}
        unavailable = candidates(self._snapshot, available=False) if failed else ()
        for work in failed:
            why = reasons.explain(self._snapshot, self._offers.candidates, unavailable, work)
            errors.update({name: why for unit in work.units for name in unit})
        machines = list[NewMachine]()
        for host in self._hosts.planned:
            machine, label = self._claims.of(host)
            if label:
                errors |= dict.fromkeys(machine.pods, f"NodePool {machine.node_pool}: minValues of {label} are not met")
            else:
                machines.append(machine)
        existing = {host.name: tuple(sorted(host.pods)) for host in self._hosts.existing if host.pods}
        return Decision(machines=tuple(machines), existing=existing, errors=errors)
