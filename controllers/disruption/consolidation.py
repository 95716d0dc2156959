"""Consolidation: which machines of dynamic NodePools can be removed, or replaced by cheaper ones.

Three moves are tried: to remove machines whose pods fit on others; to replace several machines by fewer; to replace one
by a cheaper one, or by several that together cost much less (`search.py`). Each begins with the machines that save most
for the least disruption. Replacements cost less than what they replace at the highest price that they can have
(`prices.py`); several must save `SPLIT_MARGIN` of it (`view.py`). Spot machines are not replaced. The number of
simulations in a pass is limited; a later pass continues. All of it is a pure function.

Source: https://karpenter.sh/docs/concepts/disruption/#consolidation, docs/references/karpenter.md#consolidation.
"""

from collections import Counter

import msgspec

from controllers.provisioning.price_messages import usd_per_hour

from .blockers import NOMINATED
from .candidates import Candidate, candidates
from .command import Command, Evaluation
from .search import Search, unplaced
from .simulation import Simulation
from .view import View


def consolidate(view: View) -> Evaluation:
    """The command that may begin now, once it was validated."""
    found, kept = candidates(view)
    if not found:
        return Evaluation(kept=kept)
    search = Search(view, found, kept)
    command = search.delete() or search.replace_together() or search.replace_one()
    removed = {one.claim.name for one in command.machines} if command is not None else frozenset[str]()
    return Evaluation(
        command=command,
        kept={name: why for name, why in search.kept.items() if name not in removed},
        eligible=len(found),
        solves=search.simulation.solves,
        cut=search.cut,
    )


def validated(command: Command, view: View) -> Command | str:
    """The command, with the destinations of now; or why it must not be carried out any more.

    That is `budget: …`, `scheduling: …` or `churn: …`. `view` is newer than that of the decision.
    """
    found, kept = candidates(view)
    by_uid = {one.machine.claim.uid: one for one in found}
    removed = list[Candidate]()
    for machine in command.machines:
        one = by_uid.get(machine.claim.uid)
        if one is None:
            return (
                f"churn: NodeClaim {machine.claim.name}: {kept.get(machine.claim.name, 'it is no longer a candidate')}"
            )
        if {pod.metadata.uid for pod in one.machine.pods} != {pod.metadata.uid for pod in machine.pods}:
            return f"churn: NodeClaim {machine.claim.name}: its pods have changed"
        removed.append(one)
    for name, count in Counter(one.pool.name for one in removed).items():
        left = view.budgets.get(name, 0)
        if left is not None and count > left:
            return f"budget: NodePool {name} allows {left} more disruptions, not {count}"
    return _simulated(command, removed, Simulation(view))


def _simulated(command: Command, removed: list[Candidate], simulation: Simulation) -> Command | str:
    for one in removed:
        if one.node not in simulation.known or one.node in simulation.expected:
            return f"churn: NodeClaim {one.machine.claim.name}: {NOMINATED}"
    decision = simulation.without(removed, buy=bool(command.replacements))
    if decision.errors:
        return f"scheduling: {unplaced(decision)}"
    if len(decision.machines) > len(command.replacements):
        return f"scheduling: {len(decision.machines)} replacements are needed, not {len(command.replacements)}"
    if decision.price > sum(one.price or 0.0 for one in command.replacements) + 1e-9:
        return f"scheduling: the replacements cost {usd_per_hour(decision.price)} now"
    return msgspec.structs.replace(command, destinations=tuple(decision.existing))
