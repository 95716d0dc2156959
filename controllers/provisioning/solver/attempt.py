"""One attempt at a decision: which pods are placed when, and which preferences they give up."""

from collections.abc import Iterable

from .assignment import Assignment
from .joint import families, limited
from .placement import counting, follows
from .problem import Cluster, Outcome, Problem
from .steps import OUT_OF_STEPS, Steps
from .turns import Turn, in_turn
from .ways import Way
from .work import Unit, Work, grouped

# How often types that do not meet `minValues` are left out in one attempt.
EXCLUSIONS = 12
# Of pods that are placed one kind after the other, the first kind may take one of two parts of the steps that are left,
# each further one one of so many.
PARTS_OF_ONE = 8


def attempt(cluster: Cluster, problem: Problem, way: Way, steps: Steps) -> Outcome:
    """The outcome of a way. Types that do not meet `minValues` for some pods are left out for these pods."""
    excluded: dict[int, int] = {}
    why: dict[str, str] = {}
    found = Attempt(cluster, problem, way, steps).decide()
    for _ in range(EXCLUSIONS):
        if not found.unmet or steps.spent:
            break
        why = {**found.decision.errors, **why}
        for spec, types in found.unmet.items():
            excluded[spec] = excluded.get(spec, 0) | types
        offers = cluster.offers.without(dict(excluded))
        again = Attempt(cluster._replace(offers=offers), problem, way, steps).decide()
        if again.ended:
            break
        found = again
    for work in found.failed:
        work.why = work.why or next((why[name] for unit in work.units for name in unit if name in why), "")
    return found


class Attempt:
    """The rounds of one attempt, for each part of the pods."""

    def __init__(self, cluster: Cluster, problem: Problem, way: Way, steps: Steps) -> None:
        self._way = way
        self._parts, self._turn = problem.parts, problem.turn
        self._families: dict[int, list[Work]] = {}
        self._steps, self._pending = steps, problem.running.pending
        self._ended = False
        self._assignment = Assignment(cluster, problem, way, steps)

    def decide(self) -> Outcome:
        """Place the pods of each part; if there are several, each may take an equal part of the steps that are left.

        With a turn they may take one half of the steps together. The pods that are left for want of steps follow,
        unless another attempt does.
        """
        failed: list[Work] = []
        parts, turn = len(self._parts), self._turn
        kept = self._steps.remaining // 2 if turn is not None else 0
        for number, pods in enumerate(self._parts):
            works = grouped(pods)
            if number and self._steps.remaining <= kept:
                failed += put_off(works)
                continue
            if parts > 1:
                self._steps.begin(parts - number + (parts if turn is not None else 0))
            failed += self._decided(works)
        ended = self._ended
        if turn is not None and (turn.last or not ended):
            failed = self._one_after_the_other(failed, turn)
        return self._assignment.outcome(failed, ended=ended)

    def _one_after_the_other(self, failed: list[Work], turn: Turn) -> list[Work]:
        """Place the pods that are left for want of steps, and those that come late; returns all that have no place.

        Each kind has its machines before the next one is tried, and may take a part of the steps only: some pods are
        placed in each decision, whatever all of them together need.
        """
        left = [work for work in failed if work.why != OUT_OF_STEPS]
        late = [work.anew() for work in failed if work.why == OUT_OF_STEPS]
        order = in_turn([*late, *grouped(turn.late)], self._steps.by_namespace(), turn)
        for number, work in enumerate(order):
            if not self._steps.remaining:
                return left + put_off(order[number:])
            self._steps.begin(PARTS_OF_ONE if number else 2)
            left += self._decided([work])
        return left

    def _decided(self, works: list[Work]) -> list[Work]:
        """Place pods under their strictest constraints first; those that are left give up one preference a round.

        Returns those that have no place.
        """
        first, rest = list[Work](), list[Work]()
        for work in self._join(works):
            (first if self._way.puts_first(work.units[0]) else rest).append(work)
        # Those that need others beside them may have a place when these are there.
        again = [work.anew() for work in self._rounds(first)]
        failed = self._rounds([*rest, *again])
        failed = [work.anew(relaxed=True) if work.first else work for work in failed]
        if self._steps.spent and failed:
            self._ended = True
            for work in failed:
                work.why = work.why or OUT_OF_STEPS
        return failed

    def _rounds(self, pending: list[Work]) -> list[Work]:
        """Place pods until they have no preference left; returns those that have no place."""
        failed: list[Work] = []
        while pending and not self._steps.spent:
            left = self._round([self._possible(work) for work in pending])
            pending = []
            for work in left:
                relaxed = work.relaxed()
                (failed if relaxed is None else pending).append(relaxed or work)
        return [*failed, *pending]

    def _possible(self, work: Work) -> Work:
        """The pods with the constraints under which any machine takes one of them."""
        while not self._assignment.is_possible(work) and (relaxed := work.relaxed()) is not None:
            work = relaxed
        return work

    def _join(self, works: list[Work]) -> list[Work]:
        """Place pods with alternatives of devices on machines that exist; returns all that are left.

        A machine that was bought for a later alternative takes its pods, although the first one could be bought now.
        """
        left = [work for work in works if work.spec.otherwise is None]
        found = [work.anew(relaxed=True) for work in works if work.spec.otherwise is not None]
        while found and not self._steps.spent:
            rest, found = self._round(found, buy=False), []
            for work in rest:
                other = work.otherwise()
                if other is not None:
                    found.append(other)
                else:
                    left.append(work.anew())
        return [*left, *(work.anew() for work in found)]

    def _round(self, pending: list[Work], *, buy: bool = True) -> list[Work]:
        """Place pods under their active constraints; returns those that are left, undivided."""
        machines = self._assignment
        order = sorted(pending, key=Work.largest_first)
        if self._way.rare_first:
            order.sort(key=machines.rarity)
        self._families = families(order, machines.hosts, machines.selection, self._steps)
        members = [work for family in self._families.values() for work in family]
        beside = {id(work) for work in members}
        constraints = counting(order, machines.selection, self._pending, self._steps)
        counted, following, rest = list[Work](), list[Work](), list[Work]()
        for work in order:
            if id(work) in beside:
                continue
            is_counted = any(True for _ in constraints.selecting(work.spec))
            if is_counted and not machines.domains.concerns(work.spec, work.view.topology):
                counted.append(work)
            elif id(work) not in self._families and follows(work, machines.selection):
                following.append(work)
            else:
                rest.append(work)
        first = [counted, *([one] for one in rest)] if self._way.one_by_one else [counted, rest]
        parts = [*first, *([one] for one in members), following]
        return [work for part in parts for work in self._place(part, buy=buy)]

    def _place(self, group: list[Work], *, buy: bool) -> list[Work]:
        machines, parts, left = self._assignment, list[Work](), list[Work]()

        def keep(work: Work, units: list[Unit]) -> None:
            if units:
                left.append(work.again(units))

        for work in group:
            if self._steps.spent:
                work.why = OUT_OF_STEPS
                keep(work, work.units)
            elif work.units:
                assigned, outer = machines.divided(work, self._families.get(id(work), ()))
                parts += assigned
                left += outer
        machines.domains.settle()
        machines.fill_and_buy(parts, buy=buy)
        # Where no machine for a whole unit is left, a part of its pods may have a place.
        while stuck := [part for part in parts if part.units and part.pods > 1]:
            parts = [part for part in parts if not part.units or part.pods == 1]
            smaller = list[Work]()
            for part in stuck:
                one, outside = limited(part, part.pods // 2)
                keep(part, outside)
                smaller.append(one)
            machines.fill_and_buy(smaller, buy=buy)
            parts += smaller
        for part in parts:
            keep(part, part.units)
        return left


def put_off(works: Iterable[Work]) -> list[Work]:
    """The pods, left to a later decision for want of steps."""
    found = [*works]
    for work in found:
        work.why = OUT_OF_STEPS
    return found
