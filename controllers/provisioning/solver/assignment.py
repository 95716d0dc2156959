"""Where the pods of one attempt are: on machines with room first, and new machines are bought for the rest."""

from bisect import bisect_left
from collections.abc import Sequence

from .budget import Budget
from .buying import purchases
from .candidates import Candidate
from .comparisons import TooLargeError
from .hosts import Hosts
from .joint import bundles
from .labelled import Labelled
from .min_values import has_min_values
from .model import Decision, NewMachine
from .nodes import Host, planned_host
from .placement import joins, must_join, with_domains
from .places import placed
from .problem import Cluster, Outcome, Problem
from .steps import Steps
from .topology import Domains
from .ways import Way
from .withdrawal import Put, withdraw
from .work import Unit, Work


class Assignment:
    """The state of one attempt: machines with room, machines planned so far, and pods by domain."""

    def __init__(self, cluster: Cluster, problem: Problem, way: Way, steps: Steps) -> None:
        self.offers, self.selection = cluster.offers, cluster.selection
        self.hosts = Hosts(
            cluster.existing,
            problem.among,
            problem.takers,
            exclusion=problem.exclusion,
            selection=cluster.selection,
            steps=steps,
        )
        self.domains = Domains(cluster.selection, problem.running, steps)
        self._snapshot, self._claims = cluster.snapshot, cluster.claims
        self._way = way
        self._steps = steps
        self._puts: list[Put] = []
        self._budget = Budget(cluster.snapshot, problem.leaving, problem.scarce)
        # Of the machines to buy, by the identity of their candidate.
        self._labelled: dict[int, Labelled] = {}

    def is_possible(self, work: Work) -> bool:
        """Whether any machine takes one pod under the active constraints, limits aside."""
        return self.weight(work) is not None or self.hosts.has_room(work.spec, work.view, work.requests)

    def divided(self, work: Work, members: Sequence[Work]) -> tuple[list[Work], list[Work]]:
        """The pods in parts, each for machines of one domain, and those that have no place in any.

        `members`: the other pods of the family of which they are the root.
        """
        found, outside = bundles(work, members, self.hosts, self.offers, self.selection)
        parts, left = list[Work](), [work.again(outside)] if outside else []
        for one in found:
            assigned, outside = self._with_domains(one)
            parts += assigned
            left += [one.again(outside)] if outside else []
        return parts, left

    def _with_domains(self, work: Work) -> tuple[list[Work], list[Unit]]:
        try:
            return with_domains(
                work, self.domains, self.offers, self.hosts, self._budget, way=self._way, steps=self._steps
            )
        except TooLargeError as error:
            work.why = str(error)
            return [], work.units

    def fill_and_buy(self, parts: list[Work], *, buy: bool = True) -> None:
        """Put the units on machines with room, and buy machines for the rest; what is placed leaves the works."""
        for part in sorted(parts, key=self._on_existing):
            self._fill_hosts(part)
        if buy:
            self._buy(parts)

    # --- existing machines ------------------------------------------------------------------------------------------

    def _on_existing(self, work: Work) -> tuple[object, ...]:
        """Pods for which nothing can be bought come first, small ones first, so that most of them find room."""
        can_buy = self.weight(work) is not None
        size = work.devices * 1_000_000 + work.requests.get("cpu", 0)
        rarity = self.rarity(work) if self._way.rare_first else (0, 0.0)
        return can_buy, *rarity, -size if can_buy and not self._way.small_first else size, work.units[0]

    def rarity(self, work: Work) -> tuple[int, float]:
        """How many machines one of the pods fits, and what they save at most."""
        takers = self.hosts.fitting(work.spec, work.view, work.requests)
        offered = self.offers.picked(self.offers.fitting(work.spec, work.view, work.requests))
        return takers, -next((one.price for one in offered), 0.0)

    def _fill_hosts(self, work: Work) -> None:
        joining = must_join(work, self.hosts, self.selection)
        hosts = self.hosts.with_room(work.spec, work.view, work.requests)
        while work.units and not self._steps.spent and (host := next(hosts, None)) is not None:
            if not joining or joins(work, host, self.selection):
                room = host.room(work.spec, work.view, work.requests, len(work.units), self.selection)
                self._put(host, work, self._leaving_types(host, work, room))

    def _leaving_types(self, host: Host, work: Work, room: int) -> int:
        """How many units, up to `room`, leave a planned machine as many types as the `minValues` of its NodePool."""
        candidate = host.candidate
        if candidate is None or not room or not has_min_values(candidate.pool):
            return room
        left, limits = self._budget.left, self._budget.room(candidate)

        def is_short(units: int) -> bool:
            trial, pods = host.copied(), [name for unit in work.units[:units] for name in unit]
            trial.put(work.spec, work.view, {name: n * len(pods) for name, n in work.spec.requests.items()}, pods)
            return bool(self._claims.of(trial, left, limits)[1])

        return bisect_left(range(1, room), True, key=is_short) if is_short(room) else room

    def _put(self, host: Host, work: Work, count: int) -> Host:
        """Put units on a machine, and those that must share it beside them; returns the machine with them."""
        if count <= 0:
            return host
        units, work.units = work.units[:count], work.units[count:]
        view, pods = work.view, [name for unit in units for name in unit]
        requests = {name: n * len(pods) for name, n in work.spec.requests.items()}
        host = self.hosts.place(host, work.spec, view, requests, pods)
        self._puts.append(Put(host, work, units))
        self.domains.add(placed(work.spec, view.topology, host.labels, len(pods), host.place))
        for follower, number in work.followers:
            # One that needs a domain besides finds the room that is reserved for it in its own turn.
            if not self.domains.concerns(follower.spec, follower.view.topology):
                wanted = min(number * count, len(follower.units))
                if not self.hosts.keep_out(host, follower.spec):
                    room = host.room(follower.spec, follower.view, follower.requests, wanted, self.selection)
                    host = self._put(host, follower, room)
        return host

    # --- new machines -----------------------------------------------------------------------------------------------

    def weight(self, work: Work, below: int | None = None) -> int | None:
        """The weight of the heaviest NodePools with a machine for these pods, below a weight that is exhausted."""
        return self.offers.weight(self.offers.taking(work), below)

    def _buy(self, works: list[Work]) -> None:
        """Buy machines; where the limits of a NodePool end, the NodePools of the next lower weight follow."""
        exhausted: dict[int, int] = {}
        while True:
            weights: dict[int, int] = {}
            for number, work in enumerate(works):
                if work.units and not must_join(work, self.hosts, self.selection):
                    weight = self.weight(work, exhausted.get(number))
                    if weight is not None:
                        weights[number] = weight
            if not weights:
                return
            bought = purchases(
                [works[number] for number in weights],
                [*weights.values()],
                self.offers,
                selection=self.selection,
                budget=self._budget,
                steps=self._steps,
            )
            for candidate, contents in bought:
                self._plan(candidate, contents)
            exhausted |= weights

    def _plan(self, candidate: Candidate, contents: list[tuple[Work, int]]) -> None:
        labelled = self._labelled.get(id(candidate))
        if labelled is None:
            labelled = Labelled(candidate.requirements, candidate.taints, self._snapshot.well_known)
            self._labelled[id(candidate)] = labelled
        host = planned_host(f"~{len(self.hosts.planned):06}", candidate, labelled)
        self.hosts.plan(host)
        for work, count in contents:
            host = self._put(host, work, count)
        self._budget.take(candidate)

    def outcome(self, failed: list[Work], *, ended: bool) -> Outcome:
        """What the attempt leads to. `failed`: the works that have no place. `ended`: the steps did not suffice."""
        unmet, excluded, left = dict[str, str](), dict[int, int](), self._budget.left
        failed += withdraw(self._puts, self.domains, self.hosts.planned)
        machines = list[NewMachine]()
        counted = dict[int, set[str]]()
        bought = ((one, one.candidate) for one in self.hosts.planned if one.pods and one.candidate is not None)
        for host, candidate in bought:
            for spec, _ in host.present:
                if id(spec) not in counted:
                    counted[id(spec)] = self.domains.counted_keys(spec)
                host.labelled = host.labelled.fixed(counted[id(spec)])
            machine, label, more = self._claims.of(host, left, self._budget.room(candidate))
            if label:
                unmet |= dict.fromkeys(machine.pods, f"NodePool {machine.node_pool}: minValues of {label} are not met")
                for spec, _ in host.present:
                    excluded[id(spec)] = excluded.get(id(spec), 0) | self.offers.alike(candidate)
            else:
                machines.append(machine)
                self._budget.widen(candidate, more)
        existing = {host.name: tuple(sorted(host.pods)) for host in self.hosts.filled if host.pods}
        decision = Decision(machines=tuple(machines), existing=existing, errors=unmet)
        return Outcome(decision, failed, excluded, ended, self._budget.exceeded, left)
