"""`solve`: the cheapest fleet that takes the most pending pods, as a pure function of one snapshot.

The order of decisions: room on existing nodes and on NodeClaims without a Node first, because it is paid for; then new
machines, from the NodePools of highest weight first. Among fleets that place the same pods the least price per hour
wins, then fewer machines, then names. A preference of a pod is given up only when the pod cannot be placed with it.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from operator import attrgetter, or_

import msgspec

from provisioner.api.labels import ZONE
from provisioner.api.requirements import Requirements

from . import reasons
from .attempt import attempt
from .bitsets import bits
from .bounds import Bound, Bounds
from .candidates import candidates
from .claims import Claims
from .comparisons import PER_DECISION, REMEDY, TooLargeError, beyond_budget
from .exclusion import Exclusion
from .host_index import HostIndex
from .model import Decision, Pod, PodSpec, Snapshot
from .nodes import existing_host
from .offers import Offers
from .places import placed
from .problem import Cluster, Outcome, Problem
from .running import RunningPods
from .selection import Pending, Selection
from .steps import OUT_OF_STEPS, Steps
from .term_budget import TermBudget
from .turns import Turn
from .views import comparisons
from .ways import REPAIRS, Seen, Way, further

# Prices of decisions are compared in millionths of a USD.
PRICE_TOLERANCE = 1e-6


def solve(snapshot: Snapshot, number: int = 0) -> Decision:
    """Where each pending pod goes, which machines to buy for the others, and why the rest stays pending.

    `number`: of the decision, in turn. It chooses the pods that come first where the steps do not suffice for all.
    """
    return Solver(snapshot).solve(snapshot.pods, number=number)


class Solver:
    """Decisions about one cluster; what is read of it for the first one serves all of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        offers = Offers(candidates(snapshot), snapshot.well_known)
        hosts = [existing_host(node, snapshot.daemons, snapshot.well_known) for node in snapshot.nodes]
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._index = HostIndex(hosts, snapshot.well_known)
        self._present = [
            (host.name, placed(spec, [term for term in spec.topology if not term.weight], labels, pods, place))
            for host in sorted(hosts, key=attrgetter("name"))
            for labels, place in ((host.labels, host.place),)
            for spec, pods in host.present
        ]
        self._cluster = Cluster(snapshot, offers, Selection(snapshot.namespaces), Claims(snapshot, offers), self._index)
        self._only_existing: Cluster | None = None
        self._unavailable: Offers | None = None
        self._bounds: Bounds | None = None
        self._last_full: tuple[Collection[str], int] = (), self._index.without(())

    def solve(
        self,
        pods: Iterable[Pod],
        *,
        leaving: Collection[str] = (),
        full: Collection[str] = (),
        buy: bool = True,
        number: int = 0,
    ) -> Decision:
        """A decision about these pods, the oldest one first; `number` as in the function `solve`.

        `leaving`: the names of machines that are removed, with the pods on them. `full`: those that take no pod.
        """
        cluster = self._cluster if buy else self._without_offers()
        present = [one for name, one in self._present if name not in leaving]
        removed = [self._nodes[name] for name in leaving]
        among = self._index.without(leaving)
        decided, set_aside = _within_budget(tuple(pods))
        steps, every = Steps(), frozenset(cluster.snapshot.quotas)
        pending = Pending(spec for pod in decided for spec in pod.spec.choices)
        budget = TermBudget(steps)
        running = RunningPods(cluster.selection, present, pending, budget)
        exclusion = Exclusion(cluster.selection, pending, self._index.apart, budget, steps)
        problem = Problem((decided,), among, among & self._open(full), running, exclusion, removed)
        while True:
            steps.begin(parts=2)
            found = attempt(cluster, problem, Way(), steps)
            if found.ended:
                found = _divided(cluster, problem._replace(scarce=every), steps, number)
                break
            if not found.exceeded or problem.scarce == every:
                found = self._improved(cluster, problem, found, steps)
                break
            # Once more within the quotas that were exceeded; then within all of them.
            problem = problem._replace(scarce=every if problem.scarce else found.exceeded)
        found = found._replace(set_aside={**set_aside, **found.set_aside})
        return msgspec.structs.replace(self._explained(cluster, found), steps=steps.total)

    def _improved(self, cluster: Cluster, problem: Problem, first: Outcome, steps: Steps) -> Outcome:
        """The best outcome within the quotas of all ways that may lead to a better one, as far as the steps suffice."""
        (pods,) = problem.parts
        seen = Seen(
            groups=len({pod.key for pod in pods}),
            pods=len(pods),
            scarce=first.rank[0] > 0,
            domains=any(pod.spec.topology for pod in pods),
            limited=cluster.snapshot.max_new is not None
            or bool(problem.scarce)
            or any(pool.limits for pool in cluster.snapshot.node_pools),
            hosts=bool(cluster.existing.hosts),
            shared=bool(first.decision.existing),
            zones=tuple(sorted({zone for one in _required(first) for zone in _zones(one)})),
        )
        best = first
        steps.begin(parts=1)
        for way in further(seen):
            if steps.spent or self._is_best(best, problem):
                break
            found = attempt(cluster, problem, way, steps)
            if not found.ended and not found.exceeded:
                best = min(best, found, key=attrgetter("rank"))
        return self._repaired(cluster, problem, best, steps) if seen.few and seen.groups > 1 else best

    def _repaired(self, cluster: Cluster, problem: Problem, best: Outcome, steps: Steps) -> Outcome:
        """The best outcome after attempts in which the pods that one leaves come first in the next one.

        If none is left, those come first for which a machine is bought although others have room on existing ones.
        """
        (pods,) = problem.parts
        first, last = frozenset[str](), best
        for _ in range(REPAIRS):
            left = last.left_pods or (last.bought_pods if last.decision.existing else frozenset[str]())
            if left <= first or steps.spent or self._is_best(best, problem):
                break
            groups = {pod.key for pod in pods if pod.name in left}
            first |= {pod.name for pod in pods if pod.key in groups}
            last, before = attempt(cluster, problem, Way(first=first), steps), best
            best = _better(best, last)
            buys_again = best is before and not best.left_pods
            for zone in self._paid_zones(pods, first, problem) if buys_again else ():
                best = _better(best, attempt(cluster, problem, Way(first=first, lean=zone), steps))
        return best

    def _paid_zones(self, pods: Iterable[Pod], first: Collection[str], problem: Problem) -> list[str]:
        """The zones of existing machines that take one of these pods with topology constraints.

        Of equally loaded zones, others may need the machines in the one that is chosen.
        """
        specs = {id(pod.spec): pod.spec for pod in pods if pod.name in first and pod.spec.topology}
        takers = reduce(or_, (self._least().takers(spec, problem.takers) for spec in specs.values()), 0)
        known = (self._index.hosts[position].labels for position in bits(takers))
        return sorted({one[ZONE] for one in known if ZONE in one})

    def _is_best(self, found: Outcome, problem: Problem) -> bool:
        """Whether no way can lead to a better result: all pods have a place, at the least price that is possible."""
        left, price, machines = found.rank
        if left or not machines:
            return not left
        (pods,) = problem.parts
        least = self._least().of(pods, problem.takers)
        return price <= least.alone + PRICE_TOLERANCE and machines <= least.machines

    def _explained(self, cluster: Cluster, found: Outcome) -> Decision:
        """The decision with the reasons of all pods that have no place."""
        set_aside = found.set_aside
        if not found.failed and not set_aside:
            return found.decision
        if self._unavailable is None:
            snapshot = self._cluster.snapshot
            self._unavailable = Offers(candidates(snapshot, available=False), snapshot.well_known)
        errors = {**found.decision.errors, **set_aside}
        for work in found.failed:
            why = work.why or reasons.explain(cluster.snapshot, cluster.offers, self._unavailable, work, found.left)
            errors.update({name: why for unit in work.units for name in unit})
        late = (name for work in found.failed if work.why == OUT_OF_STEPS for unit in work.units for name in unit)
        return msgspec.structs.replace(found.decision, errors=errors, set_aside=frozenset({*set_aside, *late}))

    def bound(self, pods: Collection[Pod], *, leaving: Collection[str] = (), full: Collection[str] = ()) -> Bound:
        """What new machines for these pods cost at least; `leaving` and `full` as in `solve`."""
        return self._least().of(pods, self._index.without(leaving) & self._open(full))

    def has_room_besides(self, wide: PodSpec, narrow: PodSpec, *, leaving: Collection[str]) -> bool:
        """Whether an existing machine takes a pod only with the wider one of two constraints; preferences aside."""
        among, bounds = self._index.without(leaving), self._least()
        return bool(bounds.takers(wide, among) & ~bounds.takers(narrow, among))

    def _least(self) -> Bounds:
        if self._bounds is None:
            self._bounds = Bounds(self._index, self._cluster.offers)
        return self._bounds

    def _open(self, full: Collection[str]) -> int:
        """The machines besides `full`; that of the last call is kept, because it seldom changes."""
        if self._last_full[0] is not full:
            self._last_full = full, self._index.without(full)
        return self._last_full[1]

    def _without_offers(self) -> Cluster:
        if self._only_existing is None:
            snapshot = msgspec.structs.replace(self._cluster.snapshot, node_pools=(), max_new=None)
            offers = Offers((), snapshot.well_known)
            selection = self._cluster.selection
            self._only_existing = Cluster(snapshot, offers, selection, Claims(snapshot, offers), self._index)
        return self._only_existing


def _better(best: Outcome, found: Outcome) -> Outcome:
    return best if found.ended or found.exceeded else min(best, found, key=attrgetter("rank"))


def _divided(cluster: Cluster, problem: Problem, steps: Steps, number: int) -> Outcome:
    """The outcome for pods that together need more than the steps of the first attempt.

    The kinds of pods that took the most steps come last, one after the other. If the others take too many as well, the
    pods of each namespace have their own part of the steps, those of the namespaces that took the fewest first; kinds
    for which it does not suffice come last, too. `number`: of the decision, so that not always the same ones are left.
    """
    (pods,) = problem.parts
    costly = steps.costly(kept=steps.remaining // 4)
    kinds = {pod.key for pod in pods if any(id(one) in costly for one in pod.spec.choices)}
    late, rest = [pod for pod in pods if pod.key in kinds], [pod for pod in pods if pod.key not in kinds]
    turn = Turn(number, {pod.name: age for age, pod in enumerate(pods)}, late)
    steps.begin(parts=2)
    found = attempt(cluster, problem._replace(parts=(rest,), turn=turn), Way(), steps)
    if found.ended:
        by_namespace: dict[str, list[Pod]] = {}
        for pod in rest:
            by_namespace.setdefault(pod.spec.namespace, []).append(pod)
        taken = steps.by_namespace()
        order = sorted(by_namespace, key=lambda one: (taken[one], len(by_namespace[one]), one))
        steps.begin(parts=2)
        parts = [by_namespace[one] for one in order]
        found = attempt(cluster, problem._replace(parts=parts, turn=turn._replace(last=True)), Way(), steps)
    return found


def _within_budget(pods: tuple[Pod, ...]) -> tuple[tuple[Pod, ...], dict[str, str]]:
    """The pods that are decided now, and why the others are left to a later decision."""
    needed = {pod.key: pod.spec for pod in pods}
    sizes, why = dict[bytes, int](), dict[bytes, str]()
    for key, spec in needed.items():
        try:
            sizes[key] = comparisons(spec)
        except TooLargeError as error:
            why[key] = str(error)
    why |= {
        key: f"the pods of one decision may need {PER_DECISION:,} comparisons; it needs {sizes[key]:,} and is decided"
        f" when there are fewer such pods: {REMEDY}"
        for key in beyond_budget(sizes)
    }
    if not why:
        return pods, {}
    kept = tuple(pod for pod in pods if pod.key not in why)
    return kept, {pod.name: why[pod.key] for pod in pods if pod.key in why}


def _required(found: Outcome) -> Iterator[Requirements]:
    """What the machines that are bought require of their labels, and pods without a place."""
    yield from (machine.requirements for machine in found.decision.machines)
    yield from (one for work in found.failed for one in work.views[-1].alternatives)


def _zones(required: Requirements) -> Iterable[str]:
    zones = required.get(ZONE)
    return () if zones is None or zones.complement else zones.values
