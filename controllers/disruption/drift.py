"""Drift of dynamic NodePools: which drifted machine is replaced now, and by what, as a pure function.

The machine that has drifted the longest comes first, those without pods before the others, and those whose replacement
was undone after them. Its pods get room on other machines, or new machines are bought for them: as many as they need. A
pod that finds no place keeps its machine, and the search goes on; the number of simulations is limited, and machines
beyond it have their turn later.

While no machine of the NodePool that was created since the drift is Initialized and has not drifted itself, one is
replaced at a time: a node image that makes machines useless then costs one of them.

Source: docs/references/karpenter.md#replacement-of-drifted-machines.
"""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime

from provisioner.api.conditions import DRIFTED, INITIALIZED
from provisioner.api.nodepool import NodePool

from .blockers import Unreported
from .candidates import Candidate, unpriced, with_pods
from .command import Command, Evaluation
from .machine import Machine, MachineCount, budget_left, count_of
from .retries import Undone
from .search import ONE_LIMIT, UNTRIED, WAITS, alike, in_turn, unplaced
from .simulation import Simulation
from .view import View

NO_BUDGET = "No allowed disruptions for disruption reason Drifted due to blocking budget"


def drift(view: View) -> Evaluation:
    """The command that may begin now."""
    undone = view.undone_of("Drifted")
    drifted, kept, held = list[Candidate](), dict[str, str](), dict[str, str]()
    for pool in view.node_pools:
        machines = view.of(pool)
        found = [one for one in machines if is_drifted(one)]
        if pool.spec.replicas is not None or pool.metadata.deleting or not found:
            continue
        if waits := why_held(pool, count_of(machines), undone, view.now):
            held[pool.name] = waits
            kept |= {one.claim.name: Unreported(waits) for one in found}
            continue
        alone = first_left(machines) > 0
        for one in found:
            if one.blocked_eventually:
                kept[one.claim.name] = one.blocked_eventually
            elif why := undone.waiting.get(one.claim.uid):
                kept[one.claim.name] = f"{WAITS}: {why}"
            elif alone or is_proved(one, machines):
                drifted.append(unpriced(one, pool))
    if not drifted:
        return Evaluation(kept=kept, held=held)
    movable, unmovable = with_pods(drifted, view, eventual=True)
    kept |= unmovable
    simulation = Simulation(view)
    order = sorted(
        movable, key=lambda one: (undone.numbers.get(one.machine.claim.uid, 0), bool(one.pods), *_since(one))
    )
    command, unplaceable = _first(in_turn(order, view.now), simulation)
    return Evaluation(command=command, kept=kept | unplaceable, held=held)


def why_held(pool: NodePool, count: MachineCount, undone: Undone, now: datetime) -> str:
    """Why nothing of the NodePool is replaced now, "" if something may be."""
    if why := undone.pools.get(pool.name):
        return f"{WAITS}: {why}"
    return NO_BUDGET if budget_left(pool, count, "Drifted", now) == 0 else ""


def _first(order: Sequence[Candidate], simulation: Simulation) -> tuple[Command | None, dict[str, str]]:
    """The command of the first machine whose pods get a place, and why those before it are kept."""
    kept, tried = dict[str, str](), dict[Hashable, str]()
    end = simulation.spent + ONE_LIMIT
    for candidate in order:
        kind, name = alike(candidate), candidate.machine.claim.name
        if candidate.node not in simulation.known:
            continue
        if kind not in tried and simulation.spent < end:
            decision = simulation.without([candidate], buy=True)
            if not decision.errors:
                command = Command(
                    reason="Drifted",
                    machines=(candidate.machine,),
                    destinations=tuple(decision.existing),
                    replacements=decision.machines,
                )
                return command, kept
            tried[kind] = unplaced(decision)
        kept[name] = tried.get(kind, UNTRIED)
    return None, kept


def is_drifted(one: Machine) -> bool:
    """Whether it has drifted and nothing is done about that yet."""
    return not one.going and one.claim.condition(DRIFTED, "True") is not None


def drifted_since(one: Machine) -> tuple[datetime, str]:
    """The order in which machines are replaced."""
    found = one.claim.condition(DRIFTED, "True")
    return (found.last_transition_time if found is not None else one.quiet_since), one.claim.name


def _since(one: Candidate) -> tuple[datetime, str]:
    return drifted_since(one.machine)


def is_proved(drifted: Machine, machines: Iterable[Machine]) -> bool:
    """Whether a machine of the NodePool that was created since this one drifted is Initialized: others can be expected.

    One that has drifted itself is not as a new one would be.
    """
    began, _ = drifted_since(drifted)
    return any(
        one.claim.condition(INITIALIZED, "True") is not None and one.claim.metadata.creation_timestamp >= began
        for one in machines
        if not one.claim.deleting and one.claim.condition(DRIFTED, "True") is None
    )


def first_left(machines: Sequence[Machine]) -> int:
    """How many may be replaced before one is proved: one at a time."""
    return 0 if any(one.going and not one.claim.deleting for one in machines) else 1
