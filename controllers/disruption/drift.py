"""Drift of dynamic NodePools: which machine is replaced now, and by what, as a pure function.

The machine that has drifted the longest comes first, those without pods before the others. Its pods get room on other
machines, or new machines are bought for them: as many as they need. A pod that finds no place keeps its machine.

While no machine of the NodePool that was created since the drift is Initialized, one is replaced at a time: a node
image that makes machines useless then costs one of them.

Source: docs/references/karpenter.md#replacement-of-drifted-machines.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from provisioner.api.conditions import DRIFTED, INITIALIZED
from provisioner.api.meta import EMPTY
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by

from .candidates import Candidate, unpriced, with_pods
from .command import Command
from .machine import Machine, budget_left
from .search import unplaced
from .simulation import Simulation
from .view import View

NO_BUDGET = "No allowed disruptions for disruption reason Drifted due to blocking budget"
# As many are simulated in one pass; the others have their turn once these are gone or get a place.
SIMULATIONS_MAX = 20


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """At most one command. `kept`: why drifted machines wait, by the name of the NodeClaim.

    `no_budget`: the names of NodePools whose budgets allow nothing.
    """

    command: Command | None = None
    kept: Mapping[str, str] = EMPTY
    no_budget: tuple[str, ...] = ()


def drift(view: View, waits: Callable[[NodePool], bool] = lambda _: False) -> Drift:
    """The command that may begin now. `waits`: NodePools of which nothing is replaced now."""
    drifted, kept, no_budget = list[Candidate](), dict[str, str](), list[str]()
    for pool in view.observed.node_pools:
        machines = [one for one in view.machines if is_owned_by(one.claim, pool)]
        found = [one for one in machines if is_drifted(one)]
        if pool.spec.replicas is not None or pool.metadata.deleting or not found or waits(pool):
            continue
        if budget_left(pool, machines, "Drifted", view.now) == 0:
            no_budget.append(pool.name)
            continue
        if not is_proved(machines) and first_left(machines) == 0:
            continue
        for one in found:
            if one.blocked_eventually:
                kept[one.claim.name] = one.blocked_eventually
            else:
                drifted.append(unpriced(one, pool))
    if not drifted:
        return Drift(kept=kept, no_budget=tuple(no_budget))
    movable, unmovable = with_pods(drifted, view, eventual=True)
    kept |= unmovable
    simulation = Simulation(view)
    order = sorted(movable, key=lambda one: (bool(one.pods), *drifted_since(one.machine)))
    for candidate in order[:SIMULATIONS_MAX]:
        if candidate.node not in simulation.known:
            continue
        decision = simulation.without([candidate], buy=True)
        if not decision.errors:
            command = Command(reason="Drifted", machines=(candidate.machine,), replacements=decision.machines)
            return Drift(command=command, kept=kept, no_budget=tuple(no_budget))
        kept[candidate.machine.claim.name] = unplaced(decision)
    return Drift(kept=kept, no_budget=tuple(no_budget))


def is_drifted(one: Machine) -> bool:
    """Whether it has drifted and nothing is done about that yet."""
    return not one.going and one.claim.condition(DRIFTED, "True") is not None


def drifted_since(one: Machine) -> tuple[datetime, str]:
    """The order in which machines are replaced."""
    found = one.claim.condition(DRIFTED, "True")
    return (found.last_transition_time if found is not None else one.quiet_since), one.claim.name


def is_proved(machines: Sequence[Machine]) -> bool:
    """Whether a machine of the NodePool that was created since the drift is Initialized: others can be expected."""
    began = min((drifted_since(one)[0] for one in machines if one.claim.condition(DRIFTED, "True")), default=None)
    return began is None or any(
        one.claim.condition(INITIALIZED, "True") is not None and one.claim.metadata.creation_timestamp >= began
        for one in machines
        if not one.claim.deleting
    )


def first_left(machines: Sequence[Machine]) -> int:
    """How many may be replaced before one is proved: one at a time."""
    return 0 if any(one.going and not one.claim.deleting for one in machines) else 1
