"""Records what the conditions of a claim report (`controllers/model/reported.py`), after they were written.

A deadline that has passed is reported by this write, with an Event: once, whatever its condition states otherwise.
Nothing is written in a life without a passed deadline, a failed launch or a fault of the machine.
"""

from collections.abc import Mapping

import msgspec

from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from controllers.model.reported import NOTHING, Reported, reported
from controllers.model.steps import Event, PatchClaim
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED, LAUNCHED, NODE_HEALTHY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.objects import EVENT_TTL_SECONDS


def record(f: Facts, claim: NodeClaim, updates: Mapping[str, ConditionUpdate]) -> PatchClaim | None:
    """The write of what these conditions report; None if it is recorded, or if the API server refuses it or them."""
    unreadable = any(field.startswith("status") for field in claim.metadata.unreadable)
    if "PatchClaim" in f.refused or "PatchStatus" in f.refused or unreadable:
        return None
    before = reported(claim)
    after = _reported(f, before, {name: update for name, update in updates.items() if not update.kept})
    if after == before:
        return None
    late = [update for name, update in updates.items() if update.overdue and name not in before.overdue]
    text = msgspec.json.encode(after).decode() if after != NOTHING else None
    return PatchClaim(
        claim=claim,
        annotations={labels.REPORTED: text},
        events=tuple(map(_event, late)),
        overdue=tuple(update.overdue for update in late),
    )


def _event(update: ConditionUpdate) -> Event:
    """Once, also if the record of it is refused or lost."""
    return Event(type="Warning", reason=update.reason, message=update.text, repeat_seconds=EVENT_TTL_SECONDS)


def _reported(f: Facts, before: Reported, updates: Mapping[str, ConditionUpdate]) -> Reported:
    """What is known of conditions that stay as they are is kept."""
    overdue = {name for name in before.overdue if name not in updates}
    overdue |= {name for name, update in updates.items() if update.overdue}
    after = msgspec.structs.replace(before, overdue=tuple(sorted(overdue)))
    if launched := updates.get(LAUNCHED):
        after = _of_launch(after, launched)
    if healthy := updates.get(NODE_HEALTHY):
        after = msgspec.structs.replace(after, suspended_image=healthy.reports.suspended_image)
    initialized = updates.get(INITIALIZED)
    # Without a diagnosis it is not known yet whether the one before still holds.
    if initialized is not None and (initialized.status == "True" or f.diagnosis is not None):
        after = msgspec.structs.replace(after, fault=initialized.reports.fault)
    return after


def _of_launch(before: Reported, update: ConditionUpdate) -> Reported:
    """The last failure is of use until an attempt succeeds, whatever is tried meanwhile."""
    if update.status == "True":
        return msgspec.structs.replace(before, failure=None, first_choice="")
    if update.status == "False":
        return msgspec.structs.replace(before, failure=update.reports.failure)
    return msgspec.structs.replace(before, first_choice=update.reports.first_choice or before.first_choice)
