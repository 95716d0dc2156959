"""The replacements under way, and the next step of each, as pure functions of the NodeClaims.

A command that replaces machines is stored in the objects, so that a restart continues it: the NodeClaims to remove have
the condition DisruptionReason, and each replacement names them in an annotation. The old NodeClaims are deleted once
every replacement was Initialized. A command whose replacement is deleted, cannot be launched or takes too long is
undone: its replacements that were never Initialized are deleted, and the old machines take pods again.

Source: docs/references/karpenter.md#disruption-queue.
"""

import sys
from collections.abc import Iterable
from datetime import datetime

import msgspec

from controllers.model.conditions import was_usable
from controllers.nodepool.budgets import Reason
from provisioner.api import labels, reasons
from provisioner.api.conditions import DISRUPTION_REASON, INITIALIZED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .command import ConsolidationType, consolidation_type

# From the creation: a shortage is known within minutes, and the other offerings of the claim were tried by then.
FAILED_LAUNCH_SECONDS = 600.0


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `old`: the NodeClaims to remove that are not being deleted yet. `new`: their replacements.

    `wanted`: how many replacements there are when all are created.
    """

    old: tuple[NodeClaim, ...]
    new: tuple[NodeClaim, ...] = ()
    wanted: int = 0

    @property
    def node_pools(self) -> frozenset[str]:
        """The names of the NodePools of the old NodeClaims."""
        return frozenset(claim.metadata.labels.get(labels.NODEPOOL, "") for claim in self.old)

    @property
    def reason(self) -> Reason:
        """Why the old machines are replaced."""
        found = self.old[0].condition(DISRUPTION_REASON, "True")
        return "Underutilized" if found is not None and found.reason == reasons.UNDERUTILIZED else "Drifted"

    @property
    def consolidation_type(self) -> ConsolidationType:
        """As that of the command."""
        return consolidation_type(self.reason, len(self.old))


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Every replacement was Initialized: delete the old NodeClaims."""

    command: Replacement


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the NodeClaims `unused`, and let the old machines take pods again. `why`: the cause, for users."""

    command: Replacement
    unused: tuple[NodeClaim, ...]
    why: str


class Await(msgspec.Struct, frozen=True, kw_only=True):
    """Replacements are not Initialized yet; `seconds` until that is taken for a failure."""

    command: Replacement
    missing: tuple[NodeClaim, ...]
    seconds: float


Step = Delete | Undo | Await


def annotations(old: Iterable[NodeClaim], wanted: int) -> dict[str, str]:
    """The annotations of each of the `wanted` NodeClaims that replace these."""
    return {labels.REPLACES: ",".join(claim.uid for claim in old), labels.REPLACEMENTS: str(wanted)}


def replaced_by(claim: NodeClaim) -> tuple[str, ...]:
    """The UIDs of the NodeClaims that this one replaces."""
    return tuple(uid for uid in claim.metadata.annotations.get(labels.REPLACES, "").split(",") if uid)


def under_way(claims: Iterable[NodeClaim]) -> tuple[Replacement, ...]:
    """The commands that are not finished. `claims`: all of the NodePools of this controller."""
    claims = tuple(claims)
    going = {claim.uid: claim for claim in claims if _marked(claim)}
    found, named = list[Replacement](), set[str]()
    groups: dict[tuple[str, ...], list[NodeClaim]] = {}
    for claim in claims:
        if uids := replaced_by(claim):
            groups.setdefault(uids, []).append(claim)
    for uids, new in groups.items():
        old = tuple(going[uid] for uid in uids if uid in going and uid not in named)
        named |= {claim.uid for claim in old}
        if old:
            wanted = max(_wanted(claim) for claim in new)
            found.append(Replacement(old=old, new=tuple(sorted(new, key=lambda one: one.name)), wanted=wanted))
    # Nothing was created for these, or all of it is gone.
    found += [Replacement(old=(claim,), wanted=1) for uid, claim in going.items() if uid not in named]
    return tuple(found)


def next_step(command: Replacement, now: datetime, limit_seconds: float) -> Step:
    """`limit_seconds`: how long a replacement may take from its creation until it is Initialized."""
    lost = [claim for claim in command.new if claim.deleting]
    pending = tuple(claim for claim in command.new if claim.condition(INITIALIZED, "True") is None)
    if len(command.new) < command.wanted or lost:
        names = ", ".join(claim.name for claim in lost)
        why = f"replacement {names} is being deleted" if lost else "a replacement does not exist"
        return Undo(command=command, unused=_unused(pending), why=why)
    if not pending:
        return Delete(command=command)
    left = {claim.name: _left(claim, now, limit_seconds) for claim in pending}
    if late := [claim for claim in pending if left[claim.name] <= 0]:
        return Undo(command=command, unused=_unused(pending), why=_why_late(late[0], now))
    return Await(command=command, missing=pending, seconds=min(left.values()))


def _unused(claims: Iterable[NodeClaim]) -> tuple[NodeClaim, ...]:
    """Those that never took a pod."""
    return tuple(claim for claim in claims if not claim.deleting and not was_usable(claim))


def _marked(claim: NodeClaim) -> bool:
    return not claim.deleting and claim.condition(DISRUPTION_REASON, "True") is not None


def _wanted(claim: NodeClaim) -> int:
    """A value that cannot be read is more than there can be, so that the command is undone."""
    value = claim.metadata.annotations.get(labels.REPLACEMENTS, "")
    return int(value) if value.isascii() and value.isdigit() else sys.maxsize


def _left(claim: NodeClaim, now: datetime, limit_seconds: float) -> float:
    """Seconds until the replacement is taken for failed."""
    # A launch that failed is repeated, and Launched becomes Unknown meanwhile: its own time says nothing.
    failed = claim.condition(LAUNCHED, "False") is not None
    most = min(limit_seconds, FAILED_LAUNCH_SECONDS) if failed else limit_seconds
    return most - (now - claim.metadata.creation_timestamp).total_seconds()


def _why_late(claim: NodeClaim, now: datetime) -> str:
    failed = claim.condition(LAUNCHED, "False")
    if failed is not None:
        return f"replacement {claim.name} cannot be launched: {failed.message}"
    minutes = round((now - claim.metadata.creation_timestamp).total_seconds() / 60)
    return f"replacement {claim.name} was not Initialized within {minutes} min"
