"""A bystander of every story that knows the documentation: no controller says what no page explains.

Each condition that a controller writes, and each Event, has its reason and status in the tables that the pages
are written from; a story that shows another is violated, under the name WORDS. ARM's and AKS's own codes are an open
set: they may stand where the pages say so, if they are what the message begins with.
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
# Where a code of Azure's may stand, and with which status.
AZURES = {("Launched", "False"), ("Launched", "Unknown"), ("InstanceTerminating", "Unknown")}
_CODE = re.compile(r"[A-Za-z0-9_]+(?=:)")


def listen(world: World, time: Callable[[], float]) -> None:
    """Judge every write of a controller from now on."""

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
    """The conditions that say something new which is in no table. What others have written is not said anew by us."""
    old = [_words(one) for one in _conditions(before)]
    conditions = (_words(one) for one in _conditions(claim))
    return [f"{w[0]}={w[1]} {w[2]}: {w[3]}" for w in conditions if w not in old and not explained(*w)]


def explained(on: str, status: str, reason: str, message: str) -> bool:
    """Whether a page tells what this condition means."""
    return (on, status, reason) in CONDITION_REASONS or ((on, status) in AZURES and azures(reason, message))


def explained_event(kind: str, reason: str, message: str) -> bool:
    """Whether a page tells what this Event means."""
    if (reason, kind) in EVENT_REASONS:
        return True
    return kind == "NodeClaim" and (
        any(reason == known for _, _, known in CONDITION_REASONS) or azures(reason, message)
    )


def azures(reason: str, message: str) -> bool:
    """Whether the reason is one that the error table gives, or the code that the message begins with."""
    if reason in OWN_REASONS or re.fullmatch(r"HTTP[1-5]\d\d", reason):
        return True
    code = _CODE.match(message)
    return code is not None and code[0].rpartition("_")[2].casefold() == reason.casefold()


def _words(condition: Json) -> tuple[str, str, str, str]:
    return condition["type"], condition["status"], condition.get("reason", ""), condition.get("message", "")


def _conditions(claim: Json | None) -> list[Json]:
    return list(((claim or {}).get("status") or {}).get("conditions") or ())
