"""The conditions of a NodeOverlay as a pure function: whether it is used, and why not.

Source: docs/references/karpenter.md#nodeoverlay.
"""

from datetime import datetime

from controllers.model.conditions import ConditionUpdate
from controllers.model.object_conditions import root, updated, warnings
from controllers.model.pool_steps import PatchNodeOverlayStatus
from controllers.provisioning.overlays import Overlaid
from provisioner.api import reasons
from provisioner.api.conditions import READY
from provisioner.api.nodeoverlay import NodeOverlay


def plan(overlay: NodeOverlay, found: Overlaid, now: datetime) -> PatchNodeOverlayStatus | None:
    """The next write; None if the conditions are as they should be, or `found` was computed without this overlay."""
    known = overlay.name in found.unused or overlay.name in found.offerings
    if overlay.metadata.deleting or not known:
        return None
    updates = {reasons.VALIDATION_SUCCEEDED: _valid(overlay, found)}
    updates[READY] = root(updates, *updates)
    conditions = updated(overlay.status.conditions, updates, generation=overlay.metadata.generation, now=now)
    if conditions == overlay.status.conditions:
        return None
    return PatchNodeOverlayStatus(
        overlay=overlay, conditions=conditions, events=warnings(overlay.status.conditions, conditions)
    )


def _valid(overlay: NodeOverlay, found: Overlaid) -> ConditionUpdate:
    wrong = found.unused.get(overlay.name)
    if wrong is not None:
        return ConditionUpdate(status="False", reason=wrong.reason, message=wrong.message)
    number = found.offerings[overlay.name]
    message = "" if number else "no instance type of a NodePool satisfies spec.requirements: it changes nothing"
    return ConditionUpdate(status="True", reason=reasons.VALIDATION_SUCCEEDED, message=message)
