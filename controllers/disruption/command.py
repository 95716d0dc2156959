"""One voluntary disruption: the machines to remove, and the machines that are created before.

An evaluation is what one method decides about a cluster: at most one such command, and why other machines are kept.

Source: https://karpenter.sh/docs/concepts/disruption/#disruption-controller.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from controllers.provisioning.solver.model import NewMachine
from provisioner.api.causes import ConsolidationType, Decision, Reason
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_member

from .machine import Machine, MachineCount, budget_left


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """`saving`: USD an hour, by the highest price that the replacements may have; 0 for drift.

    `destinations`: the Nodes that exist on which pods of the machines are to run.
    """

    reason: Reason
    machines: tuple[Machine, ...]
    destinations: tuple[str, ...] = ()
    replacements: tuple[NewMachine, ...] = ()
    saving: float = 0.0

    @property
    def decision(self) -> Decision:
        """Of this command."""
        return "replace" if self.replacements else "delete"

    @property
    def consolidation_type(self) -> ConsolidationType:
        """Of this command."""
        return consolidation_type(self.reason, len(self.machines))


def consolidation_type(reason: Reason, machines: int) -> ConsolidationType:
    """Of a command that removes so many machines."""
    if reason == "Underutilized":
        return "multi" if machines > 1 else "single"
    return "empty" if reason == "Empty" else ""


def renewed(
    command: Command, machines: Iterable[Machine], pools: Iterable[tuple[NodePool, MachineCount]], now: datetime
) -> Command | None:
    """The command with its machines as they are now; None if it is not allowed any more.

    `machines`: those of them that still exist. `pools`: the NodePools, each with the count of its machines.
    """
    left_of, found = tuple(machines), list[Machine]()
    for pool, count in pools:
        own = [one for one in left_of if is_member(one.claim, pool)]
        if not own:
            continue
        left = budget_left(pool, count, command.reason, now)
        blocked = (one.blocked_eventually if command.reason == "Drifted" else one.blocked for one in own)
        if any(blocked) or (left is not None and len(own) > left):
            return None
        found += own
    return msgspec.structs.replace(command, machines=tuple(found)) if len(found) == len(command.machines) else None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What a method decides now. `kept`: why it keeps machines that it looked at, by the name of the NodeClaim.

    `held`: why it disrupts nothing more of a NodePool, and `failed`: what reading one raised, by its name. `unplaced`:
    the UIDs of NodeClaims among `kept` whose pods found no place in a simulation of their own, and why.
    `eligible`: how many machines could be disrupted but for budgets. `after`: seconds until time alone changes that.
    `solves`: how many simulations were made. `cut`: candidates were not simulated because of their number.
    """

    command: Command | None = None
    kept: Mapping[str, str] = {}
    held: Mapping[str, str] = {}
    failed: Mapping[str, Exception] = {}
    unplaced: Mapping[str, str] = {}
    eligible: int = 0
    after: float = math.inf
    solves: int = 0
    cut: bool = False
