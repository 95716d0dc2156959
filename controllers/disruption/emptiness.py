"""Emptiness: the machines of NodePools that are removed because no pod uses them, as pure functions.

A machine is empty as `controllers.disruption.blockers` states. It is removed when it was empty for `consolidateAfter`
and 15 more seconds, within the budgets of its NodePool, the one that is empty the longest first.
Only NodeClaims of dynamic NodePools are considered.

Pods can run on an empty machine. It is removed if they have a place on other machines. Otherwise they would become
pending, and a machine like the removed one would be bought for them, again and again.

Source: https://karpenter.sh/docs/concepts/disruption/#consolidation, docs/references/karpenter.md#emptiness,
docs/concepts/nodepools.md#what-is-never-disrupted.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.provisioning.demand import with_volumes
from controllers.provisioning.podspecs import interchangeable
from controllers.provisioning.solver import model
from provisioner.api.conditions import INITIALIZED
from provisioner.api.nodepool import NodePool

from .blockers import NOMINATED, Unreported, empty, left_over
from .candidates import price_of, unpriced
from .command import Command, Evaluation
from .machine import Machine, MachineCount, budget_left, consolidate_after
from .simulation import Simulation
from .view import View

# So long a decision is observed before it is carried out.
VALIDATION_SECONDS = 15.0
BUDGET = "No allowed disruptions for disruption reason Empty due to blocking budget"
WAITS = "It is empty and waits for consolidateAfter"


class Emptiness(msgspec.Struct, frozen=True, kw_only=True):
    """`remove`: now. `blocked`: how many more the budgets do not allow. `after`: seconds until the next one may go.

    `kept`: those that something else blocks (`Machine.blocked`). `unused`: all that no pod uses.
    """

    remove: tuple[Machine, ...] = ()
    blocked: int = 0
    kept: tuple[Machine, ...] = ()
    unused: tuple[Machine, ...] = ()
    after: float = math.inf


def emptiness(view: View) -> Evaluation:
    """One command for all machines that may go now."""
    removed, eligible, after = list[Machine](), 0, math.inf
    kept, held, unplaced = dict[str, str](), dict[str, str](), dict[str, str]()
    for pool in view.node_pools:
        if pool.spec.replicas is not None:
            continue
        found = decide(pool, view.of(pool), view.count(pool), view.now)
        staying = kept_by_pods(view, pool, found.remove)
        why = BUDGET if found.blocked else WAITS
        kept |= {one.claim.name: Unreported(one.blocked or why) for one in found.unused}
        kept |= {one.claim.name: one.blocked for one in found.kept}
        for one in found.remove:
            if one.claim.uid in staying:
                kept[one.claim.name] = staying[one.claim.uid]
            else:
                del kept[one.claim.name]
                removed.append(one)
        if found.blocked:
            held[pool.name] = BUDGET
        unplaced |= staying
        eligible, after = eligible + len(found.remove) + found.blocked, min(after, found.after)
    command = None
    if removed:
        saving = sum(_price(one, view) for one in removed)
        command = Command(reason="Empty", machines=tuple(removed), saving=saving)
    return Evaluation(command=command, kept=kept, held=held, unplaced=unplaced, eligible=eligible, after=after)


def decide(pool: NodePool, machines: Sequence[Machine], count: MachineCount, now: datetime) -> Emptiness:
    """`machines`: at least those of the NodePool that no pod uses. `count`: of all of the NodePool."""
    seconds, unused = consolidate_after(pool), tuple(one for one in machines if not one.going and empty(one))
    if seconds is None:
        return Emptiness(unused=unused)
    waiting = {
        one.claim.uid: max(seconds + VALIDATION_SECONDS - (now - _since(one)).total_seconds(), one.nominated_seconds)
        for one in unused
        if _is_candidate(one)
    }
    quiet = sorted((one for one in unused if waiting.get(one.claim.uid, 1.0) <= 0), key=_since)
    due = [one for one in quiet if not one.blocked]
    left = budget_left(pool, count, "Empty", now)
    most = len(due) if left is None else min(len(due), left)
    later = min((left for left in waiting.values() if left > 0), default=math.inf)
    kept = tuple(one for one in quiet if one.blocked)
    return Emptiness(remove=tuple(due[:most]), blocked=len(due) - most, kept=kept, unused=unused, after=later)


def _is_candidate(one: Machine) -> bool:
    return one.node is not None and not one.node.deleting and one.claim.condition(INITIALIZED, "True") is not None


def _since(one: Machine) -> datetime:
    initialized = one.claim.condition(INITIALIZED, "True")
    return max(one.quiet_since, initialized.last_transition_time) if initialized is not None else one.quiet_since


def _price(machine: Machine, view: View) -> float:
    try:
        return price_of(machine, view.types)
    except ValueError:
        return 0.0


def kept_by_pods(view: View, pool: NodePool, due: Sequence[Machine]) -> Mapping[str, str]:
    """Why some of these machines are kept, by the UID of the NodeClaim; all others may be removed together.

    `due`: machines of the NodePool that are empty, those that are to go first in front.
    """
    kept = dict[str, str]()
    if not any(map(left_over, due)):
        return kept
    simulation = Simulation(view)
    bare = [unpriced(one, pool) for one in due if not left_over(one)]
    gone = [one for one in bare if one.node in simulation.known]
    present = [pod.constraints for one in view.machines for pod in one.pods]
    for machine in due:
        if not left_over(machine):
            continue
        try:
            pods = interchangeable(_specs(machine, view), present)
        except ValueError as error:
            kept[machine.claim.uid] = str(error)
            continue
        one = msgspec.structs.replace(unpriced(machine, pool), pods=pods)
        if one.node not in simulation.known or one.node in simulation.expected:
            kept[machine.claim.uid] = NOMINATED
            continue
        decision = simulation.without([*gone, one], buy=False)
        if decision.errors:
            names = sorted(pod.name for pod in one.pods)
            kept[machine.claim.uid] = f"not all pods would schedule on other machines, {', '.join(names[:3])}"
        else:
            gone.append(one)
    return kept


def _specs(machine: Machine, view: View) -> list[tuple[str, model.PodSpec]]:
    """The constraints of its pods. Raises ValueError for a pod that no place can be found for."""
    found = list[tuple[str, model.PodSpec]]()
    for pod in left_over(machine):
        if not pod.recreated:
            raise ValueError(f"Pod would not be created again elsewhere (Pod={pod.name})")
        try:
            found.append((pod.name, with_volumes(pod, view.observed.storage, view.types.cloud)))
        except ValueError as error:
            raise ValueError(f"not all pods would schedule, {pod.name} => {error}") from None
    return found
