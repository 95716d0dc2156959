"""One voluntary disruption: the machines to remove, and the machines that are created before.

Source: https://karpenter.sh/docs/concepts/disruption/#disruption-controller.
"""

import msgspec

from controllers.provisioning.solver.model import NewMachine
from provisioner.api.causes import ConsolidationType, Decision, Reason

from .machine import Machine


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
