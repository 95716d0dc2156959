"""What the methods of disruption read: the observed cluster, the machines of the NodePools, and what budgets allow."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nominations import NOMINATED_SECONDS
from controllers.provisioning.observed import Observed
from provisioner.api.causes import Reason
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_member

from .blockers import NOMINATED
from .command import Command
from .machine import Machine, MachineCount, budget_left, count_of
from .retries import Undone

# A machine is divided into several cheaper ones if they save at least this part of its price.
SPLIT_MARGIN = 0.2
NOTHING_UNDONE = Undone()


class View(msgspec.Struct, frozen=True, kw_only=True):
    """`machines`: all of the NodePools in `observed`, each with its pods as in `observed`.

    `node_pools`: those of which machines may be disrupted now. `budgets`: how many more machines of each NodePool may
    be disrupted as Underutilized, None without a limit; a NodePool that is missing allows none. `split_margin`: the
    part of the old prices that a command with several replacements saves at least. `undone`: the replacements that were
    undone before, by the reason of their commands. `counts`: those of NodePools of which `machines` has only some.
    """

    observed: Observed
    types: InstanceTypes
    node_pools: Sequence[NodePool]
    machines: Sequence[Machine]
    budgets: Mapping[str, int | None]
    now: datetime
    split_margin: float = SPLIT_MARGIN
    undone: Mapping[Reason, Undone] = {}
    counts: Mapping[str, MachineCount] = {}

    def of(self, pool: NodePool) -> list[Machine]:
        """The machines of this NodePool."""
        return [one for one in self.machines if is_member(one.claim, pool)]

    def count(self, pool: NodePool) -> MachineCount:
        """How many of its machines budgets count."""
        return self.counts.get(pool.name) or count_of(self.of(pool))

    def undone_of(self, reason: Reason) -> Undone:
        """The replacements for this reason that were undone."""
        return self.undone.get(reason, NOTHING_UNDONE)

    def after(self, command: Command) -> "View":
        """The view when the command has begun: its machines use the budgets, and its replacements the agent pools.

        The machines to which it moves pods are kept for them.
        """
        uids = {one.claim.uid for one in command.machines}
        machines = tuple(_after(one, command, leaving=one.claim.uid in uids) for one in self.machines)
        observed = self.observed
        if observed.max_new is not None:
            left = max(0, observed.max_new - len(command.replacements))
            observed = msgspec.structs.replace(observed, max_new=left)
        owners = (one for one in self.node_pools if any(is_member(machine.claim, one) for machine in command.machines))
        changed = consolidation_budgets((one for one in owners if one.name in self.budgets), machines, self.now)
        return msgspec.structs.replace(self, machines=machines, observed=observed, budgets={**self.budgets, **changed})


def _after(one: Machine, command: Command, *, leaving: bool) -> Machine:
    if leaving:
        return msgspec.structs.replace(one, leaving=True)
    if one.node is None or one.node.name not in command.destinations:
        return one
    return msgspec.structs.replace(
        one,
        nominated_seconds=NOMINATED_SECONDS,
        blocked=one.blocked or NOMINATED,
        blocked_eventually=one.blocked_eventually or NOMINATED,
    )


def consolidation_budgets(
    pools: Iterable[NodePool], machines: Sequence[Machine], now: datetime
) -> Mapping[str, int | None]:
    """How many more machines of each NodePool may be disrupted as Underutilized; None without a limit."""
    owned = {pool.name: (pool, [one for one in machines if is_member(one.claim, pool)]) for pool in pools}
    return {name: budget_left(pool, count_of(own), "Underutilized", now) for name, (pool, own) in owned.items()}
