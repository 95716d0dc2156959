"""A check in every simulation: each claim moves between phases only as `TRANSITIONS` permits.

The phase is computed from each version of a claim, so a phase that no pass observes is checked as well. A transition
that is not in the table is a violation, under the name PHASE. Stories that edit a claim's conditions or remove its
finalizers are not checked at that point: only the controller's own writes and deletions by users make transitions.

Source: docs/concepts/life.md#phases.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from controllers.planner.plan import TRANSITIONS, phase_of
from provisioner.api.nodeclaim import NodeClaim, Phase
from provisioner.simulator.audit_log import current_write
from provisioner.simulator.invariants import Violation
from provisioner.simulator.world import World

Json = dict[str, Any]
Transition = tuple[Phase, Phase]

NAME = "PHASE"
STORY_LINES = 40
CLAIMS = "nodeclaims.karpenter.sh"


def check_phases(world: World, time: Callable[[], float]) -> set[Transition]:
    """Check every version of every claim from now on; the returned set collects the transitions."""
    seen: set[Transition] = set()
    stripped: set[str] = set()

    def on_object(event: str, resource: str, obj: Json, before: Json | None) -> None:
        if resource != CLAIMS or before is None:
            return
        meta = obj["metadata"]
        call = current_write("claim", meta["name"])
        if call is None or call.who not in world.invariants.controllers:
            if before["metadata"].get("finalizers") and not meta.get("finalizers"):
                stripped.add(meta["uid"])
            if meta["uid"] in stripped or _conditions(obj) != _conditions(before):
                return
        old, new = phase(before), phase(None if event == "DELETED" else obj)
        if old is None or new is None or old is new:
            return
        seen.add((old, new))
        if new not in TRANSITIONS[old]:
            what = f"claim {meta['name']} moved from {old} to {new}, which TRANSITIONS does not permit"
            world.invariants.violations.append(Violation(NAME, time(), what, world.audit_log.tail(STORY_LINES)))

    world.store.subscribe(on_object)
    return seen


def phase(claim: Json | None) -> Phase | None:
    """The phase of this version; None if the program cannot decode it."""
    try:
        return phase_of(None if claim is None else msgspec.convert(claim, NodeClaim))
    except msgspec.ValidationError:
        return None


def _conditions(claim: Json) -> object:
    return (claim.get("status") or {}).get("conditions")
