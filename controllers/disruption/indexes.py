"""The indexes by which a cache of NodeClaims tells what disruption asks of all machines, without a look at each.

Each value is a function of one NodeClaim, so that it is right after every event and every list.
"""

from collections.abc import Callable, Iterable, Mapping

from provisioner.api import labels
from provisioner.api.conditions import CONSOLIDATABLE
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of, why_foreign

from .blockers import has_gpus
from .commands_under_way import replaced_by
from .machine import is_counted, is_disrupted
from .marks import command_of, is_marked
from .methods import CONDITIONS

# The machines that budgets count, by the UID of their NodePool; those that use them, with `DISRUPTED` before it.
BUDGETS, DISRUPTED = "budgets", "disrupted "
# The machines for which something may have to be done, by the condition that tells it and the UID of their NodePool.
# `GPUS`: before those of Consolidatable that have GPUs, as far as the NodeClaim tells.
CONDITION, GPUS = "condition", "with GPUs "
# The NodeClaims that a command disrupts; those of one command, and those that replace one, by its ID and by their UID.
COMMAND, MARKED, OF, REPLACES = "command", "marked", "of ", "replaces "


def disruption_indexes() -> Mapping[str, Callable[[NodeClaim], tuple[str, ...]]]:
    """The indexes that a cache of claims must have for disruption."""
    return {BUDGETS: _budgets, CONDITION: _conditions, COMMAND: _commands}


def with_condition(kind: str, pool: str, *, gpus: bool = False) -> str:
    """The value of `CONDITION` of the machines of the NodePool with this UID. `gpus`: only those with GPUs."""
    return f"{GPUS if gpus else ''}{kind} {pool}"


def _budgets(claim: NodeClaim) -> tuple[str, ...]:
    owner = nodepool_of(claim)
    if owner is None or why_foreign(claim) or not is_counted(claim):
        return ()
    return (owner.uid, f"{DISRUPTED}{owner.uid}") if is_disrupted(claim) else (owner.uid,)


def _conditions(claim: NodeClaim) -> tuple[str, ...]:
    owner = nodepool_of(claim)
    if owner is None or why_foreign(claim) or claim.deleting:
        return ()
    found = [kind for kind in CONDITIONS if claim.condition(kind, "True") is not None]
    gpus = [with_condition(CONSOLIDATABLE, owner.uid, gpus=True)] if has_gpus(claim, None) else []
    return *(with_condition(kind, owner.uid) for kind in found), *(gpus if CONSOLIDATABLE in found else ())


def _commands(claim: NodeClaim) -> tuple[str, ...]:
    if why_foreign(claim):
        return ()
    marked = (MARKED,) if is_marked(claim) and not claim.deleting else ()
    command = claim.metadata.annotations.get(labels.REPLACEMENT_COMMAND, "")
    return *marked, *((f"{OF}{command}",) if command else ()), *(f"{REPLACES}{uid}" for uid in replaced_by(claim))


def related(claims: Callable[[str, str], Iterable[NodeClaim]]) -> tuple[NodeClaim, ...]:
    """The NodeClaims that a command disrupts, and those that may be replacements of them.

    `claims(index, value)`: those of the cache under that value.
    """
    found = {one.uid: one for one in claims(COMMAND, MARKED)}
    for one in (*found.values(),):
        for value in (f"{OF}{command_of(one)}", f"{REPLACES}{one.uid}"):
            found |= {new.uid: new for new in claims(COMMAND, value)}
    return tuple(found.values())
