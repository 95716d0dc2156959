"""A check in every simulation: controllers write only conditions and Events that the documentation explains.

The reason and status of each condition, and the reason of each Event, must be in the tables from which the pages are
generated; any other is a violation, under the name WORDS. Codes of ARM and AKS are an open set: they are permitted
where the pages allow them, if the message begins with the code.
"""

import re
from collections.abc import Callable
from typing import Any

from provisioner.simulator.audit_log import current_write
from provisioner.simulator.invariants import Violation
from provisioner.simulator.world import World
from tools.reference.errors import OWN_REASONS
from tools.reference.explained import EVENTS, REASONS

Json = dict[str, Any]

NAME = "WORDS"
STORY_LINES = 40
CLAIMS = "nodeclaims.karpenter.sh"
CONDITION_REASONS = {(reason.on, status, reason.name) for reason in REASONS for status in reason.statuses}
EVENT_REASONS = {(event.name, about) for event in EVENTS for about in event.about}
# The conditions and statuses that may have a code of Azure as reason.
AZURES = {("Launched", "False"), ("Launched", "Unknown"), ("InstanceTerminating", "Unknown")}
_CODE = re.compile(r"[A-Za-z0-9_]+(?=:)")


def listen(world: World, time: Callable[[], float]) -> None:
    """Check every write of a controller from now on."""

    def violated(what: str) -> None:
        world.invariants.violations.append(Violation(NAME, time(), what, world.audit_log.tail(STORY_LINES)))

    def on_object(event: str, resource: str, obj: Json, before: Json | None) -> None:
        if event == "DELETED":
            return
        if resource == CLAIMS:
            call = current_write("claim", obj["metadata"]["name"])
            if call is not None and call.who in world.invariants.controllers:
                for found in unexplained(obj, before):
                    violated(f"{obj['metadata']['name']} says what no page explains: {found}")
        elif resource == "events" and (obj.get("source") or {}).get("component") == "gpu-provisioner":
            kind = obj["involvedObject"]["kind"]
            if not explained_event(kind, obj["reason"], obj["message"]):
                violated(f"an Event of a {kind} that no page explains: {obj['reason']}: {obj['message']}")

    world.store.subscribe(on_object)


def unexplained(claim: Json, before: Json | None) -> list[str]:
    """New conditions of a claim that are in no table; conditions that were there before do not count."""
    old = [_words(one) for one in _conditions(before)]
    conditions = (_words(one) for one in _conditions(claim))
    return [f"{w[0]}={w[1]} {w[2]}: {w[3]}" for w in conditions if w not in old and not explained(*w)]


def explained(on: str, status: str, reason: str, message: str) -> bool:
    """Whether a page explains this condition."""
    return (on, status, reason) in CONDITION_REASONS or ((on, status) in AZURES and azures(reason, message))


def explained_event(kind: str, reason: str, message: str) -> bool:
    """Whether a page explains this Event."""
    if (reason, kind) in EVENT_REASONS:
        return True
    if kind in ("NodePool", "AgentPoolNodeClass", "NodeOverlay"):
        return any((status, known) == ("False", reason) for _, status, known in CONDITION_REASONS)
    return kind == "NodeClaim" and (
        any(reason == known for _, _, known in CONDITION_REASONS) or azures(reason, message)
    )


def azures(reason: str, message: str) -> bool:
    """Whether the error table has the reason, or the message begins with it as a code."""
    if reason in OWN_REASONS or re.fullmatch(r"HTTP[1-5]\d\d", reason):
        return True
    code = _CODE.match(message)
    return code is not None and code[0].rpartition("_")[2].casefold() == reason.casefold()


def _words(condition: Json) -> tuple[str, str, str, str]:
    return condition["type"], condition["status"], condition.get("reason", ""), condition.get("message", "")


def _conditions(claim: Json | None) -> list[Json]:
    return list(((claim or {}).get("status") or {}).get("conditions") or ())
