"""Whether the pods of machines to delete have a place elsewhere, by a snapshot that is newer than the decision.

While replacements start, which takes minutes, other pods can take the room that a decision counted on. A pod that is
pending goes first, because kube-scheduler places it as soon as there is room.

Source: docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Iterable, Set

import msgspec

from controllers.provisioning.pods import provisionable
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of

from .candidates import Candidate, unpriced, with_pods
from .command import Command
from .commands_under_way import Places, Replacement
from .machine import Machine
from .search import unplaced
from .simulation import Simulation
from .view import View

UNKNOWN = "its NodePool, or what runs on it, cannot be read"


def places(view: View, command: Replacement) -> Places:
    """Of the pods of the old machines of a command, whose replacements are Initialized."""
    uids = {claim.uid for claim in command.old}
    machines = [one for one in view.machines if one.claim.uid in uids]
    candidates = _candidates(machines, view.observed.node_pools)
    if len(candidates) < len(uids):
        return Places(lacking=UNKNOWN, coming=True)
    found, kept = with_pods(candidates, view, eventual=command.reason == "Drifted")
    if kept:
        return Places(lacking=min(kept.values()))
    if not any(one.pods for one in found):
        return Places()
    simulation = Simulation(view)
    now = simulation.moved(found, _others(view, uids), coming=False)
    if not now.errors:
        return Places()
    later = simulation.moved(found, _others(view, uids), coming=True)
    return Places(lacking=unplaced(now), coming=not later.errors)


def for_pods(view: View, command: Command) -> Command | str:
    """The command of a static NodePool whose replacement its pods can use; or which pods cannot, and why.

    The template can allow zones and sizes that the pods do not. Without this a machine would be bought again and again,
    and would not be used. The other NodePools buy nothing.
    """
    owners = {owner.uid for one in command.machines if (owner := nodepool_of(one.claim)) is not None}
    pools = tuple(_buying(one, buys=one.metadata.uid in owners) for one in view.observed.node_pools)
    most = len(command.replacements)
    view = msgspec.structs.replace(
        view, observed=msgspec.structs.replace(view.observed, node_pools=pools, max_new=most)
    )
    uids = {one.claim.uid for one in command.machines}
    machines = [one for one in view.machines if one.claim.uid in uids]
    candidates = _candidates(machines, pools)
    if len(candidates) < len(uids):
        return UNKNOWN
    found, kept = with_pods(candidates, view, eventual=True)
    if kept:
        return min(kept.values())
    if not any(one.pods for one in found):
        return command
    decision = Simulation(view).without(found, buy=True)
    if decision.errors:
        return unplaced(decision)
    narrowed = tuple(
        msgspec.structs.replace(one, instance_types=needed.instance_types, requirements=needed.requirements)
        for one, needed in zip(command.replacements, decision.machines, strict=False)
    )
    replacements = (*narrowed, *command.replacements[len(narrowed) :])
    return msgspec.structs.replace(command, destinations=tuple(decision.existing), replacements=replacements)


def _buying(pool: NodePool, *, buys: bool) -> NodePool:
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, replicas=None if buys else 0))


def _candidates(machines: Iterable[Machine], node_pools: Iterable[NodePool]) -> list[Candidate]:
    pools = {pool.metadata.uid: pool for pool in node_pools}
    owned = ((one, nodepool_of(one.claim)) for one in machines)
    return [unpriced(one, pools[owner.uid]) for one, owner in owned if owner is not None and owner.uid in pools]


def _others(view: View, uids: Set[str]) -> Set[str]:
    """The pods that need a place and are not pending, besides those of machines that are being drained.

    They are on machines of other commands, which have replacements of their own.
    """
    going = (one for one in view.machines if one.going and not one.claim.deleting and one.claim.uid not in uids)
    pending = {pod.name for pod in provisionable(view.observed.pods)}
    return {pod.name for one in going for pod in one.pods} - pending
