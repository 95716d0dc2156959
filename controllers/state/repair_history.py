"""The repairs of the last days: those of this process, and those that former leaders left.

A repair is recorded before it is sent, so that a leader that is killed in between has counted it. Repairs of machines
that fail young in the same way count until one such machine was usable, whatever time passes between them.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from controllers.model.recent_repairs import RecentRepair, RepairStage

# The Lease holds so many, the newest ones: about 30 KB.
MOST = 200


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair, of a machine of this owner, at this loop time in seconds."""

    stage: RepairStage
    owner: str
    at: float


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

    def alike(self, stage: RepairStage, now: float) -> int:
        """How many such machines were replaced, and none was usable since."""
        return sum(stage == repair.stage for repair in self._within(now).values())

    def usable(self, stage: RepairStage, created: float, now: float) -> None:
        """A machine that was created then was usable in this stage: a row of failures before it has ended."""
        ended = [uid for uid, one in self._within(now).items() if one.stage == stage and one.at <= created]
        self.unsaved = self.unsaved or bool(ended)
        for uid in ended:
            self._repairs[uid] = msgspec.structs.replace(
                self._repairs[uid], stage=msgspec.structs.replace(stage, young=False)
            )

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
                at=(wall - timedelta(seconds=now - one.at)).replace(microsecond=0),
            )
            for uid, one in newest
        )

    def restore(self, repairs: Iterable[RecentRepair], wall: datetime, now: float) -> None:
        """Count repairs of former leaders. One dated in the future, by another clock, counts as made now."""
        for repair in repairs:
            at = now - max(0.0, (wall - repair.at).total_seconds())
            self._repairs.setdefault(repair.claim_uid, Repair(stage=repair.of, owner=repair.owner, at=at))

    def _within(self, now: float) -> dict[str, Repair]:
        self._repairs = {uid: one for uid, one in self._repairs.items() if now - one.at < self._kept_seconds}
        return self._repairs
