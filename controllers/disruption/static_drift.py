"""Drift of static NodePools: which machines are replaced now, as a pure function.

Each gets a replacement from the template first, and is deleted once that is Initialized, so that the NodePool has more
than `spec.replicas` machines meanwhile. A machine whose pods could not use the replacement is kept.

Source: docs/references/karpenter.md#static-nodepools, docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.nodepool.replica_schedules import Desired, desired
from controllers.nodepool.static_capacity import NODES, node_limit
from controllers.provisioning.cost import room_for
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.offered import settings_of
from controllers.provisioning.solver.model import NewMachine
from controllers.provisioning.static_machine import static_machine
from provisioner.api.meta import EMPTY
from provisioner.api.nodepool import NodePool
from provisioner.api.object_errors import OBJECT_ERRORS

from .blockers import Unreported
from .command import Command, Evaluation
from .drift import NO_BUDGET, drifted_since, first_left, is_drifted, is_proved
from .machine import Machine, budget_left, count_of
from .places import for_pods
from .retries import Undone
from .search import WAITS
from .view import NOTHING_UNDONE, View

LIMIT = f"spec.limits[{NODES}]"
NO_AGENT_POOL = (
    "The limit on agent pools allows no replacement (--max-agent-pools, or what AKS and other agent pools leave): raise"
    " it, or delete agent pools"
)


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """`replace`: now, the longest drifted first. `held`: why the NodePool lets others wait, "" if it does not.

    `kept`: why drifted machines wait for a cause of their own, by the name of the NodeClaim.
    """

    replace: tuple[Machine, ...] = ()
    held: str = ""
    kept: Mapping[str, str] = EMPTY


def static_drift(view: View) -> Evaluation:
    """The command that may begin now; an error of one NodePool ends nothing of the others."""
    kept, held = dict[str, str](), dict[str, str]()
    failed, unplaced = dict[str, Exception](), dict[str, str]()
    for pool in view.node_pools:
        if pool.spec.replicas is None or pool.metadata.deleting:
            continue
        try:
            found = _of_pool(pool, view)
        except OBJECT_ERRORS as error:
            failed[pool.name] = error
            continue
        kept, held, unplaced = {**kept, **found.kept}, {**held, **found.held}, {**unplaced, **found.unplaced}
        if found.command is not None:
            return Evaluation(command=found.command, kept=kept, held=held, unplaced=unplaced, failed=failed)
    return Evaluation(kept=kept, held=held, unplaced=unplaced, failed=failed)


def _of_pool(pool: NodePool, view: View) -> Evaluation:
    """The replacement of the first machine whose pods can use it."""
    undone, machines = view.undone_of("Drifted"), view.of(pool)
    drifted = [one for one in machines if is_drifted(one)]
    if not drifted:
        return Evaluation()
    settings = settings_of(pool.spec.template.spec.node_class_ref, view.observed.node_classes)
    target = desired(pool, settings.replica_schedules, view.now)
    due = due_now(pool, machines, view.now, target=target, max_new=view.observed.max_new, undone=undone)
    replacement = static_machine(pool, view.types, settings) if due.replace else None
    if replacement is not None and (unaffordable := _beyond_cost(pool, machines, replacement, view.types)):
        due = Due(held=unaffordable, kept=due.kept)
    why = due.held or (f"{WAITS}: {cause}" if (cause := undone.pools.get(pool.name)) else "")
    kept = {**({one.claim.name: Unreported(why) for one in drifted} if why else {}), **due.kept}
    held, unplaced = {pool.name: why} if why else {}, dict[str, str]()
    replacements = (replacement,) if replacement is not None else ()
    for machine in due.replace if replacements else ():
        command = for_pods(view, Command(reason="Drifted", machines=(machine,), replacements=replacements))
        if isinstance(command, Command):
            return Evaluation(command=command, kept=kept, held=held, unplaced=unplaced)
        kept[machine.claim.name] = unplaced[machine.claim.uid] = command
    return Evaluation(kept=kept, held=held, unplaced=unplaced)


def due_now(
    pool: NodePool,
    machines: Sequence[Machine],
    now: datetime,
    *,
    target: Desired | None,
    max_new: int | None = None,
    undone: Undone = NOTHING_UNDONE,
) -> Due:
    """`machines`: all of the NodePool, including those being deleted.

    `target`: how many NodeClaims the NodePool is to have; None if it is not static. `max_new`: how many agent pools may
    still be created; None without a limit. `undone`: the replacements that were.
    """
    line = ((undone.numbers.get(one.claim.uid, 0), *drifted_since(one), one) for one in machines if is_drifted(one))
    drifted = [one for *_, one in sorted(line, key=lambda place: place[:3])]
    running = [one for one in machines if not one.claim.deleting]
    if target is None or not drifted:
        return Due()
    if (surplus := len(running) - _replaced(running) - target.replicas) > 0:
        return Due(held=_beyond_replicas(surplus, target))
    free = [one for one in drifted if not one.blocked_eventually and one.claim.uid not in undone.waiting]
    left = budget_left(pool, count_of(machines), "Drifted", now)
    if left == 0:
        return Due(held=NO_BUDGET)
    kept = {
        one.claim.name: one.blocked_eventually or f"{WAITS}: {undone.waiting[one.claim.uid]}"
        for one in drifted
        if one not in free
    }
    # One of which the command has just been decided will have a replacement, which may not exist yet.
    count = len(machines) + sum(one.leaving for one in machines)
    limit = node_limit(pool, default=count + len(free))
    room = limit - count
    if room <= 0 and free:
        return Due(held=_at_limit(limit, target), kept=kept)
    if max_new is not None and max_new <= 0 and free:
        return Due(held=NO_AGENT_POOL, kept=kept)
    most = min(one for one in (room, left, max_new) if one is not None)
    proved = [one for one in free if is_proved(one, machines)]
    first = [one for one in free if one not in proved][: first_left(machines)]
    chosen = [one for one in free if one in proved or one in first]
    return Due(replace=tuple(chosen[: max(0, most)]), kept=kept)


def _beyond_replicas(surplus: int, target: Desired) -> str:
    """That NodeClaims are deleted first: a replacement would be one more, and the scale-down could choose it.

    An admission policy can protect them for as long as it exists.
    """
    return (
        f"Waiting for the deletion of {surplus} NodeClaims beyond {target}, before others are"
        " replaced; Events of NodeClaims state which deletions are refused"
    )


def _beyond_cost(pool: NodePool, machines: Sequence[Machine], replacement: NewMachine, types: InstanceTypes) -> str:
    """Why the limit on the cost allows no replacement beside all machines, "" if it does."""
    # The replacements of commands that have just been decided may not exist yet.
    coming = sum(one.leaving for one in machines)
    own = ((one.claim, one.node) for one in machines)
    allowed, why = room_for(pool, own, replacement.requirements, types, coming=coming)
    return why if allowed == 0 else ""


def _at_limit(limit: int, target: Desired) -> str:
    """Why the limit on Nodes allows no replacement now; one above `spec.replicas` needs no change by a user."""
    if limit <= target.replicas:
        return f"{LIMIT} allows no replacement; raise it above {target}"
    return (
        f"{LIMIT} is {limit} and counts NodeClaims that are being deleted or replaced: others are replaced after them"
    )


def _replaced(running: Sequence[Machine]) -> int:
    """Machines that have a replacement beside them."""
    return sum(one.going for one in running)
