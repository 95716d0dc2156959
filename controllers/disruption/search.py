"""The search for one consolidation command: the moves, their order, and how many simulations each may make.

Source: docs/references/karpenter.md#consolidation.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime

from cloudprovider.interface import SPOT
from controllers.provisioning.solver import model

from .balanced import accepts, totals
from .blockers import NOMINATED
from .candidates import Candidate
from .command import Command
from .prices import Prices
from .simulation import Simulation
from .view import View

BUDGET = "No allowed disruptions for disruption reason Underutilized due to blocking budget"
NOT_CHEAPER = "Can't replace with a cheaper node"
SPOT_TO_SPOT = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
UNTRIED = "It was not simulated in this pass, in which many other machines were"
WAITS = "The next replacement waits, the last one was undone"
UNREADABLE = "Its Node cannot be read"

# The most machines of one command, as in Karpenter.
MACHINES_MAX = 100
# What the simulations of each move count together at most; see `Simulation.spent`.
DELETE_LIMIT, TOGETHER_LIMIT, ONE_LIMIT = 40, 60, 60
# How many machines are replaced together.
TOGETHER = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 100)
# After so long other machines are simulated first, if there are too many.
TURN_SECONDS = 10


class Search:
    """`kept`: why machines are kept, by the name of the NodeClaim. `cut`: candidates were left out by their number."""

    def __init__(self, view: View, found: Sequence[Candidate], kept: Mapping[str, str]) -> None:
        self._view = view
        self._waiting = view.undone_of("Underutilized").waiting
        self._prices = Prices(view.types)
        self._totals = totals(view)
        self.simulation = Simulation(view)
        self.kept = dict(kept)
        self.cut = False
        self._candidates = [one for one in found if not self._obstacle(one)]
        self._bounds = {one.node: self.simulation.bound(one) for one in self._candidates}

    def delete(self) -> Command | None:
        """Remove machines whose pods fit on the others: as many together as possible."""
        fitting = [one for one in self._candidates if not self._bounds[one.node].alone and self._worth(one)]
        end = self.simulation.spent + DELETE_LIMIT
        removed, failed, places = list[Candidate](), set[Hashable](), model.Decision()
        position, size = 0, 1
        while position < len(fitting) and len(removed) < MACHINES_MAX:
            block, after = self._block(fitting, position, min(size, MACHINES_MAX - len(removed)), removed, failed)
            if not block:
                break
            if self.simulation.spent >= end:
                self.cut = True
                break
            decision = self.simulation.without([*removed, *block], buy=False)
            if not decision.errors:
                removed, places = [*removed, *block], decision
                position, size = after, size * 2
            elif len(block) == 1:
                failed.add(alike(block[0]))
                position, size = after, 1
            else:
                size = len(block) // 2
        return _command(removed, places, (), sum(one.price for one in removed)) if removed else None

    def replace_together(self) -> Command | None:
        """Replace several machines by fewer ones that cost less."""
        groups: dict[str, list[Candidate]] = {}
        for one in self._candidates:
            waits = one.machine.claim.uid in self._waiting
            if not waits and one.capacity_type != SPOT and self._bounds[one.node].shared < one.price:
                groups.setdefault(one.gpu_model, []).append(one)
        end = self.simulation.spent + TOGETHER_LIMIT
        for group in groups.values():
            first, _ = self._block(group, 0, MACHINES_MAX, (), ())
            options = list[Command]()
            for count in TOGETHER:
                if count > len(first):
                    break
                if self.simulation.spent >= end:
                    self.cut = True
                    break
                command, _ = self._replaced(first[:count])
                options += [command] if command is not None else []
            if options:
                return max(options, key=lambda one: one.saving)
        return None

    def replace_one(self) -> Command | None:
        """Replace one machine by a cheaper one, or by several that together cost much less."""
        tried: dict[Hashable, str] = {}
        end = self.simulation.spent + ONE_LIMIT
        for one in in_turn(self._hopeful(), self._view.now):
            name, kind = one.machine.claim.name, alike(one)
            if kind not in tried and self.simulation.spent >= end:
                self.cut, self.kept[name] = True, UNTRIED
                continue
            if kind not in tried:
                command, tried[kind] = self._replaced([one])
                if command is not None:
                    return command
            self.kept[name] = tried[kind]
        return None

    def _obstacle(self, one: Candidate) -> str:
        """Why a candidate is not simulated, which is noted."""
        why = ""
        if one.node not in self.simulation.known:
            why = UNREADABLE
        elif one.node in self.simulation.expected:
            why = NOMINATED
        elif self._view.budgets.get(one.pool.name, 0) == 0:
            why = BUDGET
        self.kept[one.machine.claim.name] = why or NOT_CHEAPER
        return why

    def _worth(self, one: Candidate) -> bool:
        return accepts((one,), one.price, self._totals)

    def _hopeful(self) -> list[Candidate]:
        """Those that cheaper machines might replace."""
        found = []
        for one in self._candidates:
            name, bound = one.machine.claim.name, self._bounds[one.node]
            if why := self._waiting.get(one.machine.claim.uid):
                self.kept[name] = f"{WAITS}: {why}"
            elif bound.alone == math.inf:
                self.kept[name] = "not all pods would schedule"
            elif one.capacity_type == SPOT:
                self.kept[name] = SPOT_TO_SPOT
            elif bound.alone < one.price:
                found.append(one)
        return found

    def _block(
        self,
        found: Sequence[Candidate],
        position: int,
        size: int,
        removed: Sequence[Candidate],
        failed: Iterable[Hashable],
    ) -> tuple[list[Candidate], int]:
        """The next candidates that the budgets allow besides those removed, and the position after them."""
        used = Counter(one.pool.name for one in removed)
        block = list[Candidate]()
        while position < len(found) and len(block) < size:
            one = found[position]
            left = self._view.budgets.get(one.pool.name, 0)
            if (left is None or used[one.pool.name] < left) and alike(one) not in failed:
                block.append(one)
                used[one.pool.name] += 1
            position += 1
        return block, position

    def _replaced(self, removed: Sequence[Candidate]) -> tuple[Command | None, str]:
        """The command that replaces these machines, or why there is none."""
        decision = self.simulation.without(removed, buy=True)
        if decision.errors:
            return None, unplaced(decision)
        old, new = sum(one.price for one in removed), decision.machines
        if not new:
            command = _command(removed, decision, (), old)
            return (command, "") if accepts(removed, old, self._totals) else (None, NOT_CHEAPER)
        if len(removed) > 1 and len(new) >= len(removed):
            return None, NOT_CHEAPER
        kept = self._prices.below(new, old if len(new) == 1 else old * (1 - self._view.split_margin))
        if kept is not None and len(removed) > 1:
            kept = self._others(kept, removed)
        if kept is None:
            return None, NOT_CHEAPER
        saving = old - sum(self._prices.worst(one) for one in kept)
        if not accepts(removed, saving, self._totals):
            return None, NOT_CHEAPER
        return _command(removed, decision, kept, saving), ""

    def _others(
        self, machines: Sequence[model.NewMachine], removed: Sequence[Candidate]
    ) -> tuple[model.NewMachine, ...] | None:
        """The machines without sizes that one of those removed has, or dearer ones: that one could be kept instead."""
        found = list[model.NewMachine]()
        for machine in machines:
            same = [one.price for one in removed if one.size in machine.instance_types]
            narrowed = self._prices.below((machine,), min(same)) if same else (machine,)
            if narrowed is None:
                return None
            found += narrowed
        return tuple(found)


def unplaced(decision: model.Decision) -> str:
    """The pods that find no place, the first one with the cause."""
    name, why = min(decision.errors.items())
    rest = f" and {len(decision.errors) - 1} more" if len(decision.errors) > 1 else ""
    return f"not all pods would schedule, {name} => {why}{rest}"


def _command(
    removed: Sequence[Candidate], places: model.Decision, replacements: tuple[model.NewMachine, ...], saving: float
) -> Command:
    return Command(
        reason="Underutilized",
        machines=tuple(one.machine for one in removed),
        destinations=tuple(places.existing),
        replacements=replacements,
        saving=saving,
    )


def in_turn(found: list[Candidate], now: datetime) -> list[Candidate]:
    """All of them; beyond what can be simulated in one pass, others come first in each one."""
    first, rest = found[: ONE_LIMIT // 2], found[ONE_LIMIT // 2 :]
    if len(rest) <= ONE_LIMIT // 2:
        return found
    turn = int(now.timestamp()) // TURN_SECONDS * (ONE_LIMIT // 2) % len(rest)
    return [*first, *rest[turn:], *rest[:turn]]


def alike(one: Candidate) -> Hashable:
    """Equal for machines that a simulation cannot tell apart, zones aside."""
    return one.pool.name, one.size, one.capacity_type, one.price, tuple(sorted(pod.key for pod in one.pods))
