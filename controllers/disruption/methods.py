"""The methods of disruption, in the order in which they are tried, and one pass over them.

The controllers of disruption, `schedule --disrupt` and `explain` run the same pass. A command uses the budgets of the
methods after it, which keep the machines that take its pods. Expiration is no method: no budget delays it, and nothing
is created before.

Source: https://karpenter.sh/docs/concepts/disruption/#disruption-controller,
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/disruption/controller.go (NewMethods).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from provisioner.api import reasons
from provisioner.api.causes import REASONS, Reason
from provisioner.api.conditions import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED

from .command import Command, Evaluation
from .consolidation import consolidate
from .drift import drift
from .emptiness import emptiness
from .static_drift import static_drift
from .view import View


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method. `condition`: of the NodeClaims that it disrupts; "" for emptiness, which counts the time itself.

    `compute`: at most one command. `static`: it is for static NodePools only. `repeats`: whether a pass may have
    several commands of this method. `event`: the reason of the Event about a machine that is kept.
    """

    name: str
    reason: Reason
    condition: str
    compute: Callable[[View], Evaluation]
    static: bool = False
    repeats: bool = False
    event: str = reasons.DISRUPTION_BLOCKED


EMPTINESS = Method(name="emptiness", reason="Empty", condition="", compute=emptiness)
# Removals, replacements of several machines and those of one are moves of one search, which share its simulations.
CONSOLIDATION = Method(
    name="consolidation",
    reason="Underutilized",
    condition=CONSOLIDATABLE,
    compute=consolidate,
    event=reasons.UNCONSOLIDATABLE,
)
METHODS = (
    EMPTINESS,
    Method(name="static drift", reason="Drifted", condition=DRIFTED, compute=static_drift, static=True, repeats=True),
    Method(name="drift", reason="Drifted", condition=DRIFTED, compute=drift, repeats=True),
    CONSOLIDATION,
)
# Without any of these there is nothing to do about a machine; the last one is of a command under way.
CONDITIONS = (*dict.fromkeys(one.condition for one in METHODS if one.condition), DISRUPTION_REASON)


class Pass:
    """One pass. `view`: what the next method reads. `commands`: those that were found so far."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.commands: list[Command] = []
        self._kept: dict[Method, Mapping[str, str]] = {}

    def run(self, method: Method) -> Evaluation:
        """The next command of this method; its machines use the budgets of what is run after it."""
        found = method.compute(self.view)
        self._kept[method] = found.kept
        if found.command is not None:
            self.commands.append(found.command)
            self.view = self.view.after(found.command)
        return found

    def run_all(self, methods: Iterable[Method] = METHODS) -> None:
        """Every command that may begin now. Raises what an object raised."""
        for method in methods:
            while True:
                found = self.run(method)
                for error in found.failed.values():
                    raise error
                if found.command is None or not method.repeats:
                    break

    @property
    def kept(self) -> Mapping[str, str]:
        """Why the other machines are kept, by the name of the NodeClaim: of several causes that of drift."""
        gone = {one.claim.name for command in self.commands for one in command.machines}
        found = dict[str, str]()
        for method in sorted(self._kept, key=lambda one: REASONS.index(one.reason)):
            found |= self._kept[method]
        return {name: why for name, why in found.items() if name not in gone}
