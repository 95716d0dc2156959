"""The replacements under way, and the next step of each, as pure functions of the NodeClaims.

A command that replaces machines is stored in the objects, so that a restart continues it. Its ID is an annotation of
the NodeClaims to remove and of their replacements: a replacement of an earlier command is none of a later one, even for
the same machine. The old NodeClaims are deleted once every replacement was Initialized. A command whose replacement is
deleted, cannot be launched or takes too long is undone: the replacements that failed are deleted, the others, on which
pods may count already, are ordinary machines from then on, and the old machines take pods again.

Source: docs/references/karpenter.md#disruption-queue.
"""

import sys
from collections.abc import Collection, Container, Iterable, Mapping, Sequence, Set

import msgspec

from controllers.model.conditions import was_usable
from provisioner.api import labels, reasons
from provisioner.api.causes import REASONS, ConsolidationType, Reason
from provisioner.api.conditions import DISRUPTION_REASON, INITIALIZED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .command import consolidation_type
from .marks import command_of, is_marked

# From the creation, unless the claim has offerings that it has not tried: a shortage is known within minutes.
FAILED_LAUNCH_SECONDS = 600.0
# A process that has just started observes a replacement for this part of its limit, however old it seems to be.
OBSERVED_PART = 1 / 3
# Of the number of replacements; Python converts no more than 4,300.
DIGITS_MAX = 9


class Age(msgspec.Struct, frozen=True, kw_only=True):
    """How old a NodeClaim is, in seconds.

    `before`: when this process started, by the wall clock. `observed`: since then, by a clock that nobody sets.
    """

    before: float = 0.0
    observed: float = 0.0


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `old`: the NodeClaims to remove that are not being deleted yet. `new`: their replacements.

    `id` is "" for a NodeClaim with the condition and without an ID, which a user has removed, or which no command of
    this controller has written. `wanted`: how many replacements there are when all are created. `decided`: the reason
    of one whose marks were not written. `protected`: whether an old machine, or a pod there, must not be disrupted now.
    """

    id: str
    old: tuple[NodeClaim, ...]
    new: tuple[NodeClaim, ...] = ()
    wanted: int = 0
    decided: Reason | None = None
    protected: bool = False

    @property
    def node_pools(self) -> frozenset[str]:
        """The names of the NodePools of the old NodeClaims."""
        return frozenset(claim.metadata.labels.get(labels.NODEPOOL, "") for claim in self.old)

    @property
    def reason(self) -> Reason:
        """Why the old machines are replaced; the one that more things prevent if the conditions do not state one."""
        if self.decided is not None:
            return self.decided
        return next((reason for reason in REASONS if self._stated == {reason}), "Underutilized")

    @property
    def unknown_reason(self) -> str:
        """A reason that a condition states and this version does not know, such as one of a newer version; or ""."""
        return min(self._stated - {"", *REASONS}, default="")

    @property
    def _stated(self) -> Set[str]:
        """The reasons of the conditions; "" stands for a NodeClaim without one."""
        found = (one.condition(DISRUPTION_REASON, "True") for one in self.old)
        return {one.reason if one is not None else "" for one in found}

    @property
    def consolidation_type(self) -> ConsolidationType:
        """As that of the command."""
        return consolidation_type(self.reason, len(self.old))


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Every replacement was Initialized: delete the old NodeClaims."""

    command: Replacement


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the NodeClaims `unused`, and let the old machines take pods again. `why`: the cause, for users.

    `kept`: replacements that have a machine, or soon have one, which stay as ordinary machines.
    """

    command: Replacement
    unused: tuple[NodeClaim, ...]
    kept: tuple[NodeClaim, ...]
    why: str


class Await(msgspec.Struct, frozen=True, kw_only=True):
    """Replacements are not Initialized yet; `seconds` until that is taken for a failure."""

    command: Replacement
    missing: tuple[NodeClaim, ...]
    seconds: float


Step = Delete | Undo | Await


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of machines to delete go. `lacking`: which has no place and why, "" if all have one.

    `coming`: whether they have one as soon as machines are Ready that exist or are being created.
    """

    lacking: str = ""
    coming: bool = False


def annotations(command: str, old: Iterable[NodeClaim], wanted: int) -> dict[str, str]:
    """The annotations of each of the `wanted` NodeClaims that replace these."""
    replaced = ",".join(claim.uid for claim in old)
    return {labels.REPLACEMENT_COMMAND: command, labels.REPLACES: replaced, labels.REPLACEMENTS: str(wanted)}


def replaced_by(claim: NodeClaim) -> tuple[str, ...]:
    """The UIDs of the NodeClaims that this one was created to replace."""
    return tuple(uid for uid in claim.metadata.annotations.get(labels.REPLACES, "").split(",") if uid)


def replaces(new: NodeClaim, old: NodeClaim) -> bool:
    """Whether one replaces the other: they have the same command, which is neither complete nor undone."""
    command = command_of(old)
    same = bool(command) and new.metadata.annotations.get(labels.REPLACEMENT_COMMAND) == command
    return same and old.uid in replaced_by(new)


def under_way(claims: Iterable[NodeClaim]) -> tuple[Replacement, ...]:
    """The commands that are not finished. `claims`: all of the NodePools of this controller."""
    claims = tuple(claims)
    new = dict[str, list[NodeClaim]]()
    for claim in claims:
        if command := claim.metadata.annotations.get(labels.REPLACEMENT_COMMAND, ""):
            new.setdefault(command, []).append(claim)
    groups = dict[tuple[str, str], list[NodeClaim]]()
    for claim in claims:
        if is_marked(claim) and not claim.deleting:
            command = command_of(claim)
            replaced = any(replaces(one, claim) for one in new.get(command, ()))
            # For the others nothing was created, or all of it is gone, or the annotation is a copy.
            groups.setdefault((command, "" if replaced else claim.uid), []).append(claim)
    found = list[Replacement]()
    for (command, uid), old in groups.items():
        # Without the ID, the replacements are those that name the machine, unless they have a command.
        left = () if command else (one for name, of in new.items() if (name, "") not in groups for one in of)
        own = tuple(one for one in left if uid in replaced_by(one))
        found.append(_replacement(command, old, own if uid else new[command]))
    return tuple(found)


def replaced(claims: Iterable[NodeClaim]) -> Set[str]:
    """The UIDs of the NodeClaims to remove whose replacements all exist. `claims`: those that count as machines."""
    commands = (one for one in under_way(claims) if not any(new.deleting for new in one.new))
    return frozenset(claim.uid for one in commands if one.id and len(one.new) >= one.wanted for claim in one.old)


def next_step(command: Replacement, ages: Mapping[str, Age], limit_seconds: float, trying: Container[str] = ()) -> Step:
    """`limit_seconds`: how long a replacement may take from its creation until it is Initialized.

    `ages`: of the replacements, by UID; one that is missing was created just now. `trying`: those whose launch failed
    and that have further offerings to try.
    """
    if not command.id:
        return undo(command, f"it has no annotation {labels.DISRUPTION_COMMAND}")
    if unknown := command.unknown_reason:
        return undo(command, f"this version does not know the reason {unknown} of its condition {DISRUPTION_REASON}")
    if lost := [claim for claim in command.new if claim.deleting]:
        return undo(command, f"replacement {', '.join(claim.name for claim in lost)} is being deleted")
    if len(command.new) < command.wanted:
        return undo(command, "a replacement does not exist")
    pending = [claim for claim in command.new if claim.condition(INITIALIZED, "True") is None]
    if not pending:
        return Delete(command=command)
    left = {
        claim.name: _left(claim, ages.get(claim.uid, Age()), limit_seconds, trying=claim.uid in trying)
        for claim in pending
    }
    if late := [claim for claim in pending if left[claim.name] <= 0]:
        return undo(command, _why_late(late[0], limit_seconds), late)
    return Await(command=command, missing=tuple(pending), seconds=min(left.values()))


def last_step(command: Replacement, places: Places, ages: Mapping[str, Age], limit_seconds: float) -> Step:
    """The step of a command whose replacements are Initialized, by the places of the pods of its old machines."""
    if not places.lacking:
        return Delete(command=command)
    left = min((_left(claim, ages.get(claim.uid, Age()), limit_seconds) for claim in command.new), default=0.0)
    if places.coming and left > 0:
        return Await(command=command, missing=(), seconds=left)
    return undo(command, places.lacking)


def undo(command: Replacement, why: str, late: Collection[NodeClaim] = ()) -> Undo:
    """What undoes the command. `late`: replacements that take too long."""
    staying = [claim for claim in command.new if not claim.deleting]
    kept = tuple(one for one in staying if was_usable(one) or (one not in late and _is_coming(one)))
    return Undo(command=command, unused=tuple(one for one in staying if one not in kept), kept=kept, why=why)


def _replacement(command: str, old: Sequence[NodeClaim], new: Sequence[NodeClaim]) -> Replacement:
    wanted = max(map(_wanted, new), default=1)
    return Replacement(id=command, old=tuple(old), new=tuple(sorted(new, key=lambda one: one.name)), wanted=wanted)


def _is_coming(claim: NodeClaim) -> bool:
    """Whether its machine is being created, or boots."""
    launched = claim.condition(LAUNCHED)
    return launched is not None and (launched.status == "True" or launched.reason == reasons.CREATING)


def _wanted(claim: NodeClaim) -> int:
    """The number of replacements. An invalid value counts as too many, so that the command is undone."""
    value = claim.metadata.annotations.get(labels.REPLACEMENTS, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX else sys.maxsize


def _left(claim: NodeClaim, age: Age, limit_seconds: float, *, trying: bool = False) -> float:
    """Seconds until the replacement is taken for failed."""
    # A launch that failed is repeated, and Launched becomes Unknown meanwhile: its own time says nothing.
    failed = claim.condition(LAUNCHED, "False") is not None and not trying
    most = min(limit_seconds, FAILED_LAUNCH_SECONDS) if failed else limit_seconds
    return max(most - age.before, most * OBSERVED_PART) - age.observed


def _why_late(claim: NodeClaim, limit_seconds: float) -> str:
    failed = claim.condition(LAUNCHED, "False")
    if failed is not None:
        return f"replacement {claim.name} cannot be launched: {failed.message}"
    return f"replacement {claim.name} was not Initialized within {round(limit_seconds / 60)} min"
