"""The repairs of the last days: those of this process, and those that former leaders left.

A repair is recorded before it is sent, so that a leader that is killed in between has counted it. Repairs of machines
that fail young in the same way count until one such machine was usable, whatever time passes between them. What fails
can be in the template of one owner: a machine of another owner ends them for all owners but that one.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from controllers.model.recent_repairs import RecentRepair, RepairStage

# The Lease holds so many, the newest ones: about 30 KB.
MOST = 200


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair, of a machine of this owner, at this loop time in seconds.

    `owner_only`: another owner's machine was usable since.
    """

    stage: RepairStage
    owner: str
    at: float
    owner_only: bool = False


class RepairHistory:
    """Times are loop times in seconds; wall clocks date only what passes from one process to another.

    `unsaved`: a row of failures has ended since the entries were written for the next process.
    """

    def __init__(self, kept_seconds: float) -> None:
        self._kept_seconds = kept_seconds
        self._repairs: dict[str, Repair] = {}
        self.unsaved = False

    def started(self, claim_uid: str, stage: RepairStage, owner: str, now: float) -> bool:
        """The claim is about to be deleted. Whether that is news to other processes."""
        news = claim_uid not in self._repairs
        self._repairs[claim_uid] = Repair(stage=stage, owner=owner, at=now)
        return news

    def not_sent(self, claim_uid: str) -> None:
        """The repair could not be recorded, and was not sent."""
        self._repairs.pop(claim_uid, None)

    def alike(self, stage: RepairStage, owner: str, now: float) -> int:
        """How many such machines were replaced, and none was usable since that shows something for this owner's."""
        counted = (one for one in self._within(now).values() if one.owner == owner or not one.owner_only)
        return sum(stage == one.stage for one in counted)

    def usable(self, stage: RepairStage, owner: str, created: float, now: float) -> None:
        """A machine of this owner that was created then was usable in this stage: the row of its owner before it has
        ended, and that of machines without an owner. Those of other owners count for these alone.
        """
        for uid, one in self._within(now).items():
            if one.stage != stage or one.at > created:
                continue
            over = msgspec.structs.replace(one, stage=msgspec.structs.replace(stage, young=False))
            found = over if one.owner in ("", owner) else msgspec.structs.replace(one, owner_only=True)
            self.unsaved = self.unsaved or found != one
            self._repairs[uid] = found

    def stages(self, size: str, image: str) -> frozenset[RepairStage]:
        """What young machines of this size and image failed by."""
        return frozenset(
            one.stage
            for one in self._repairs.values()
            if one.stage.size == size and one.stage.young and one.stage.has_image(image)
        )

    def of_group(self, group: str, since: float, now: float) -> frozenset[str]:
        """The UIDs of claims that were replaced for signals of this group since then."""
        return frozenset(uid for uid, one in self._within(now).items() if one.stage.stage == group and one.at >= since)

    def last(self, group: str, owner: str, now: float) -> float | None:
        """When a machine of this owner was last replaced for signals of this group; None if none was."""
        times = [one.at for one in self._within(now).values() if (one.stage.stage, one.owner) == (group, owner)]
        return max(times, default=None)

    def entries(self, wall: datetime, now: float) -> tuple[RecentRepair, ...]:
        """The newest repairs, with their times on the wall clock."""
        newest = sorted(self._within(now).items(), key=lambda item: item[1].at)[-MOST:]
        return tuple(
            RecentRepair(
                claim_uid=uid,
                size=one.stage.size,
                image=one.stage.image,
                stage=one.stage.stage,
                young=one.stage.young,
                owner=one.owner,
                owner_only=one.owner_only,
                at=(wall - timedelta(seconds=now - one.at)).replace(microsecond=0),
            )
            for uid, one in newest
        )

    def restore(self, repairs: Iterable[RecentRepair], wall: datetime, now: float) -> None:
        """Count repairs of former leaders. One dated in the future, by another clock, counts as made now."""
        for repair in repairs:
            at = now - max(0.0, (wall - repair.at).total_seconds())
            made = Repair(stage=repair.of, owner=repair.owner, at=at, owner_only=repair.owner_only)
            self._repairs.setdefault(repair.claim_uid, made)

    def _within(self, now: float) -> dict[str, Repair]:
        self._repairs = {uid: one for uid, one in self._repairs.items() if now - one.at < self._kept_seconds}
        return self._repairs
