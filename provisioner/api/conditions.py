"""Status conditions: how one is written (`after_write`), and those of a claim with their order and the root `Ready`.

Behaves like Karpenter v1, because clients (KAITO, `kubectl wait`, dashboards) rely on the transition times. Every
operation returns a new set. Times have whole seconds in UTC. A reason that the CRD rejects raises an error; messages
are truncated to 256 bytes.

Source: docs/references/karpenter.md#condition-mechanics.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from . import reasons
from .meta import Condition, condition_of
from .nodeclaim import NodeClaim
from .text import printable

Status = Literal["True", "False", "Unknown"]

# A condition that is True has its own type as the reason, so each name is written once, in `reasons`.
READY, LAUNCHED, REGISTERED, INITIALIZED = reasons.READY, reasons.LAUNCHED, reasons.REGISTERED, reasons.INITIALIZED
DRAINED, VOLUMES_DETACHED = reasons.DRAINED, reasons.VOLUMES_DETACHED
INSTANCE_TERMINATING = reasons.INSTANCE_TERMINATING
NODE_HEALTHY = reasons.NODE_HEALTHY
STALLED = "Stalled"
DRIFTED = "Drifted"
CONSOLIDATABLE = reasons.CONSOLIDATABLE
DISRUPTION_REASON = "DisruptionReason"
DEPENDENTS = (LAUNCHED, REGISTERED, INITIALIZED)

AWAITING_MESSAGE = "object is awaiting reconciliation"
MESSAGE_BYTES = 256
# The phrase by which KAITO's RAGEngine detects that no offering is left (docs/references/kaito.md#ragengine).
EXHAUSTED = "all requested instance types were unavailable during launch"

_REASON = re.compile(r"([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)")
_REASON_LENGTH = 1024
_ELLIPSIS = "..."


def truncate(message: str, limit: int = MESSAGE_BYTES) -> str:
    """The message, printable, in at most `limit` bytes of UTF-8; a longer one is cut and ends with `...`."""
    encoded = printable(message).encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode("utf-8")
    room = limit - len(_ELLIPSIS)
    if room < 0:
        return _ELLIPSIS[:limit]
    return encoded[:room].decode("utf-8", "ignore") + _ELLIPSIS


def after_write(
    before: Condition | None, kind: str, status: Status, *, reason: str, message: str, generation: int, now: datetime
) -> Condition:
    """The condition of any object after a write; its transition time moves only with its status.

    Raises ValueError for a reason that the CRD's pattern rejects, or for a `now` without a time zone.
    """
    if len(reason) > _REASON_LENGTH or _REASON.fullmatch(reason) is None:
        raise ValueError(
            f"invalid condition reason {reason!r}: use letters, digits, '_', ',' and ':', and begin with a letter"
        )
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=truncate(message),
        observed_generation=generation,
        last_transition_time=(
            before.last_transition_time if before is not None and before.status == status else _whole_seconds(now)
        ),
    )


class ConditionSet(msgspec.Struct, frozen=True):
    """The conditions of one claim, in stored order: ascending by transition time, those that await their predecessors
    behind the others, `Ready` last. The first that is not True is the cause, which kubectl shows as REASON.

    `generation`, `created` and `deleting` are those of the claim.
    """

    items: tuple[Condition, ...]
    generation: int
    created: datetime
    deleting: bool

    @classmethod
    def of(cls, claim: NodeClaim, now: datetime) -> "ConditionSet":
        """The claim's set. Ready and its dependents are added as Unknown since the claim's creation if missing."""
        opened = cls(
            items=claim.status.conditions,
            generation=claim.metadata.generation,
            created=_whole_seconds(claim.metadata.creation_timestamp),
            deleting=claim.deleting,
        )
        for condition_type in (READY, *DEPENDENTS):
            if opened.get(condition_type) is None:
                opened = opened.set(
                    condition_type, "Unknown", reason=reasons.AWAITING, message=AWAITING_MESSAGE, now=now
                )
        return opened

    def get(self, condition_type: str) -> Condition | None:
        return condition_of(self.items, condition_type)

    def set(self, condition_type: str, status: Status, *, reason: str, message: str, now: datetime) -> "ConditionSet":
        """Set one condition and update `Ready`. Returns the same set if nothing changes.

        Raises ValueError for a reason that the CRD's pattern rejects, or for a `now` without a time zone.
        """
        old = self.get(condition_type)
        # The first of these count as Unknown since the creation; deadlines begin then.
        opened = old is None and (condition_type == READY or condition_type in DEPENDENTS)
        new = after_write(
            old,
            condition_type,
            status,
            reason=reason,
            message=message,
            generation=self.generation,
            now=self.created if opened else now,
        )
        if new == old:
            return self
        others = (c for c in self.items if c.type != condition_type)
        if self.deleting:
            others = (msgspec.structs.replace(c, observed_generation=self.generation) for c in others)
        changed = msgspec.structs.replace(self, items=_ordered((*others, new)))
        return changed if condition_type == READY else _update_ready(changed, now)

    def set_true(self, condition_type: str, now: datetime) -> "ConditionSet":
        """Set a condition to True, with its type as the reason and no message."""
        return self.set(condition_type, "True", reason=condition_type, message="", now=now)

    def clear(self, condition_type: str) -> "ConditionSet":
        """Remove an independent condition, if present, and sort the others by type, as Karpenter does.

        Raises ValueError for `Ready` and its dependents, which a claim always has.
        """
        if condition_type == READY or condition_type in DEPENDENTS:
            raise ValueError(f"{condition_type} is always present and cannot be cleared")
        if self.get(condition_type) is None:
            return self
        rest = (c for c in self.items if c.type != condition_type)
        return msgspec.structs.replace(self, items=tuple(sorted(rest, key=lambda c: c.type)))

    def changed(self, claim: NodeClaim) -> bool:
        """Whether this set differs from the claim's status."""
        return self.items != claim.status.conditions


def _update_ready(conditions: ConditionSet, now: datetime) -> ConditionSet:
    """Recompute Ready. A dependent with an older observedGeneration counts as unhealthy whatever its status."""
    generation = conditions.generation
    unhealthy = [
        c
        for c in conditions.items
        if c.type in DEPENDENTS and (c.status != "True" or c.observed_generation != generation)
    ]
    if not unhealthy:
        return conditions.set_true(READY, now)
    newest_first = sorted(unhealthy, key=lambda c: c.last_transition_time, reverse=True)
    message = ", ".join(f"{c.type}={c.status}" for c in newest_first)
    if any(c.status == "False" and c.observed_generation == generation for c in unhealthy):
        return conditions.set(READY, "False", reason=reasons.UNHEALTHY_DEPENDENTS, message=message, now=now)
    return conditions.set(READY, "Unknown", reason=reasons.RECONCILING_DEPENDENTS, message=message, now=now)


def _ordered(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    return tuple(
        sorted(conditions, key=lambda c: (c.type == READY, c.reason == reasons.AWAITING, c.last_transition_time))
    )


def _whole_seconds(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError("a condition's time needs a time zone")
    return time.astimezone(UTC).replace(microsecond=0)
