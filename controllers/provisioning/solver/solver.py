"""`solve`: the cheapest fleet that takes the most pending pods, as a pure function of one snapshot.

The order of decisions: room on existing nodes and on NodeClaims without a Node first, because it is paid for; then new
machines, from the NodePools of highest weight first. Among fleets that place the same pods the least price per hour
wins, then fewer machines, then names. A preference of a pod is given up only when the pod cannot be placed with it.
"""

from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from . import reasons
from .bounds import Bound, Bounds
from .budget import Budget
from .buying import purchases
from .candidates import Candidate, candidates
from .claims import Claims
from .hosts import HostIndex, Hosts
from .model import Decision, ExistingNode, NewMachine, Pod, PodSpec, Snapshot
from .nodes import Host, existing_host, planned_host
from .offers import Offers
from .placement import bundled, follows, is_counted, joins, must_join, with_domains
from .topology import Domains, Placed, Selection, placed
from .work import Unit, Work, grouped


def solve(snapshot: Snapshot) -> Decision:
    """Where each pending pod goes, which machines to buy for the others, and why the rest stays pending."""
    return Solver(snapshot).solve(snapshot.pods)


class Solver:
    """Decisions about one cluster; what is read of it for the first one serves all of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        offers = Offers(candidates(snapshot), snapshot.well_known)
        hosts = [existing_host(node, snapshot.daemons, snapshot.well_known) for node in snapshot.nodes]
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._index = HostIndex(hosts)
        self._present = [
            (host.name, placed(spec, terms, labels, pods))
            for host in sorted(hosts, key=attrgetter("name"))
            for labels in (host.labels,)
            for spec, terms, pods in host.present
        ]
        self._cluster = _Cluster(snapshot, offers, Selection(), Claims(snapshot, offers), self._index)
        self._only_existing: _Cluster | None = None
        self._bounds: Bounds | None = None
        self._last_full: tuple[Collection[str], int] = (), self._index.without(())

    def solve(
        self,
        pods: Iterable[Pod],
        *,
        leaving: Collection[str] = (),
        full: Collection[str] = (),
        buy: bool = True,
    ) -> Decision:
        """A decision about these pods.

        `leaving`: the names of machines that are removed, with the pods on them. `full`: those that take no pod.
        """
        cluster = self._cluster if buy else self._without_offers()
        present = [one for name, one in self._present if name not in leaving]
        removed = [self._nodes[name] for name in leaving]
        among = self._index.without(leaving)
        problem = _Problem(tuple(pods), among, among & self._open(full), present, removed)
        decisions = [_Attempt(cluster, problem).decide()]
        scarce, domains = bool(decisions[0].errors), any(pod.spec.topology for pod in problem.pods)
        if scarce and cluster.existing.hosts:
            # Room on existing nodes that is given to small pods first takes more of them.
            decisions.append(_Attempt(cluster, problem, small_first=True).decide())
        if domains:
            # Domains are chosen before machines; group by group, later groups prefer the domains of planned machines.
            decisions.append(_Attempt(cluster, problem, one_by_one=True).decide())
        snapshot = cluster.snapshot
        if scarce and domains and (snapshot.max_new is not None or any(pool.limits for pool in snapshot.node_pools)):
            # The cheapest domain may be one in which limits allow a few machines only.
            decisions.append(_Attempt(cluster, problem, within_limits=True).decide())
        return min(decisions, key=lambda one: (len(one.errors), round(one.price, 6), len(one.machines)))

    def bound(self, pods: Collection[Pod], *, leaving: Collection[str] = (), full: Collection[str] = ()) -> Bound:
        """What new machines for these pods cost at least; `leaving` and `full` as in `solve`."""
        if self._bounds is None:
            self._bounds = Bounds(self._index, self._cluster.offers)
        return self._bounds.of(pods, self._index.without(leaving) & self._open(full))

    def has_room_besides(self, wide: PodSpec, narrow: PodSpec, *, leaving: Collection[str]) -> bool:
        """Whether an existing machine takes a pod only with the wider one of two constraints; preferences aside."""
        if self._bounds is None:
            self._bounds = Bounds(self._index, self._cluster.offers)
        among = self._index.without(leaving)
        return bool(self._bounds.takers(wide, among) & ~self._bounds.takers(narrow, among))

    def _open(self, full: Collection[str]) -> int:
        """The machines besides `full`; that of the last call is kept, because it seldom changes."""
        if self._last_full[0] is not full:
            self._last_full = full, self._index.without(full)
        return self._last_full[1]

    def _without_offers(self) -> "_Cluster":
        if self._only_existing is None:
            snapshot = msgspec.structs.replace(self._cluster.snapshot, node_pools=(), max_new=None)
            offers = Offers((), snapshot.well_known)
            selection = self._cluster.selection
            self._only_existing = _Cluster(snapshot, offers, selection, Claims(snapshot, offers), self._index)
        return self._only_existing


class _Cluster(NamedTuple):
    """What all decisions read."""

    snapshot: Snapshot
    offers: Offers
    selection: Selection
    claims: Claims
    existing: HostIndex


class _Problem(NamedTuple):
    """What all attempts at one decision read.

    `among`: the machines that stay, `takers`: those that take pods, `present`: the pods on all that stay.
    """

    pods: tuple[Pod, ...]
    among: int
    takers: int
    present: list[Placed]
    leaving: list[ExistingNode]


class _Attempt:
    """The state of one attempt: machines with room, machines planned so far, and pods by domain."""

    def __init__(
        self,
        cluster: _Cluster,
        problem: _Problem,
        *,
        small_first: bool = False,
        one_by_one: bool = False,
        within_limits: bool = False,
    ) -> None:
        self._snapshot, self._offers, self._selection, self._claims, index = cluster
        self._small_first = small_first
        self._one_by_one = one_by_one
        self._within_limits = within_limits
        self._pods = problem.pods
        self._hosts = Hosts(index, problem.among, problem.takers, self._selection)
        self._domains = Domains(self._selection, problem.present)
        self._budget = Budget(self._snapshot, problem.leaving)

    def decide(self) -> Decision:
        """Place pods under their strictest constraints first; those that are left give up one preference a round."""
        pending = grouped(self._pods)
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
        requests = {name: n * count for name, n in work.requests.items()}
        host = self._hosts.place(host, work.spec, view, requests, pods)
        if not work.domain:
            self._domains.add(placed(work.spec, view.topology, host.labels, len(pods)))

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
        existing = {host.name: tuple(sorted(host.pods)) for host in self._hosts.filled}
        return Decision(machines=tuple(machines), existing=existing, errors=errors)
