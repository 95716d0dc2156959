"""Changes that other clients made to a claim's agent pool: reported, never reverted.

A pool that was scaled to 0 is not treated as missing: its Node loses our finalizer and its claim waits, as for a
stopped cluster. Additional machines of a pool are deleted with it.

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#labels-and-taints,
docs/references/rules.md#ownership-marks, docs/references/rules.md#every-removal-has-a-cause.
"""

from cloudprovider.interface import Instance, InstanceState
from controllers.model.facts import Facts
from controllers.model.ownership import held_by, uids
from provisioner.api.nodeclaim import NodeClaim


def scaled_to_zero(instance: Instance | None) -> bool:
    """Whether another client scaled this pool to 0; a spot pool at 0 was evicted."""
    return (
        instance is not None
        and instance.state is InstanceState.RUNNING
        and instance.count == 0
        and instance.priority != "Spot"
    )


def scale_command(name: str) -> str:
    """The command that scales a pool to one machine."""
    return f"az aks nodepool scale --name {name} --node-count 1"


def scaled_to_zero_message(instance: Instance) -> str:
    """The message about a pool that was scaled to 0."""
    return f"agent pool {instance.name} was scaled to 0: {scale_command(instance.name)}"


def changes(f: Facts, claim: NodeClaim) -> str:
    """A message with all changes; "" if there are none."""
    instance = f.instance
    if instance is None or instance.state is not InstanceState.RUNNING or not held_by(instance, claim):
        return ""
    found = [*_count(instance), *_missing_marks(instance, claim)]
    return f"agent pool {f.key} was changed by another client: " + "; ".join(found) if found else ""


def _count(instance: Instance) -> list[str]:
    if instance.count == 1 or (instance.count == 0 and not scaled_to_zero(instance)):
        return []
    scale = scale_command(instance.name)
    if instance.count == 0:
        return [f"it has no machine: {scale}"]
    return [f"it has {instance.count} machines instead of 1; all are deleted with this claim, or {scale}"]


def _missing_marks(instance: Instance, claim: NodeClaim) -> list[str]:
    """The marks that were removed; a pool of Azure/gpu-provisioner has neither."""
    if not instance.marks:
        return []
    missing = [
        what
        for what, uid in (("tags", instance.claim_uid), ("node labels", instance.label_uid))
        if uid not in uids(claim)
    ]
    return [f"its {what} no longer name this claim; without the other mark it is never removed" for what in missing]
