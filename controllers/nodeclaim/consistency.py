"""What somebody has changed on a claim's agent pool by hand: said, never fought over, never taken for a loss.

Pure; judged by what the pool says of itself. One of ours at count 0 is emptied, not lost: its Node is let go
and its claim waits, as for a stopped cluster. More machines than one are the changer's; they go with the pool.

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#labels-and-taints,
docs/references/rules.md#ownership-marks, docs/references/rules.md#every-removal-has-a-cause.
"""

from cloudprovider.interface import Instance, InstanceState
from controllers.model.facts import Facts
from controllers.model.ownership import held_by, marks, uids
from provisioner.api.nodeclaim import NodeClaim


def scaled_to_zero(instance: Instance | None) -> bool:
    """Whether somebody scaled this pool to 0. A spot pool at 0 was evicted, which is another matter."""
    return (
        instance is not None
        and instance.state is InstanceState.RUNNING
        and instance.count == 0
        and instance.priority != "Spot"
    )


def scale_command(name: str) -> str:
    """The command that gives a pool the one machine that was asked for."""
    return f"az aks nodepool scale --name {name} --node-count 1"


def scaled_to_zero_message(instance: Instance) -> str:
    """What is said of a pool that was scaled to 0."""
    return f"agent pool {instance.name} was scaled to 0: {scale_command(instance.name)}"


def changes(f: Facts, claim: NodeClaim) -> str:
    """All that was changed, "" if nothing was."""
    instance = f.instance
    if instance is None or instance.state is not InstanceState.RUNNING or not held_by(instance, claim):
        return ""
    said = [*_count(instance), *_missing_marks(instance, claim)]
    return f"agent pool {f.key} was changed by others: " + "; ".join(said) if said else ""


def _count(instance: Instance) -> list[str]:
    if instance.count == 1 or (instance.count == 0 and not scaled_to_zero(instance)):
        return []
    cost = f"it has {instance.count} machines, one was asked for; all of them go with this claim"
    scale = scale_command(instance.name)
    return [f"it has no machine: {scale}" if instance.count == 0 else f"{cost}, or {scale}"]


def _missing_marks(instance: Instance, claim: NodeClaim) -> list[str]:
    """A pool that our predecessor made bears neither mark."""
    if not marks(instance):
        return []
    missing = [
        what
        for what, uid in (("tags", instance.claim_uid), ("node labels", instance.label_uid))
        if uid not in uids(claim)
    ]
    return [f"its {what} no longer name this claim; without the other mark it would not be removed" for what in missing]
