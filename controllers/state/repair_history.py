"""The repairs of the last days: those of this process, and those that former leaders left.

A repair is recorded before it is sent, so that a leader that is killed in between has counted it. Repairs of machines
that fail young in the same way count until one such machine was usable, whatever time passes between them. What fails
can be in the template of one owner: a machine of another owner ends them for all owners but that one.

Machines of one owner that fail alike at any age, each after the former one was replaced, count until a newer one of
that owner becomes nearly as old as they did, and does not fail like them itself.
"""

import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec

from controllers.model.recent_repairs import RecentRepair, RepairStage
from provisioner.api.repair_policy import STARTING

# The Lease holds so many, the newest ones: about 40 KB.
MOST = 200
# Creation times have whole seconds.
CLOCK_SECONDS = 1.0
# A machine that became so old, as a share of the age at which another one was replaced, does not fail like that one:
# where machines are replaced at an age, such as by expireAfter, none becomes older than one that failed just before it.
OUTLIVED_SHARE = 0.9


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair, of a machine of this owner, at this loop time in seconds.

    `owner_only`: another owner's machine was usable since. `lived`: the age of the machine in seconds. `ended_by`: the
    UID of the claim of a newer machine that became nearly as old; "" without one.
    """

    stage: RepairStage
    owner: str
    at: float
    owner_only: bool = False
    lived: float = 0.0
    ended_by: str = ""

    def is_before(self, created: float) -> bool:
        """Whether a machine that was created then can have replaced this one."""
        return self.at - CLOCK_SECONDS <= created


class RepairHistory:
    """Times are loop times in seconds; wall clocks date only what passes from one process to another.

    `unsaved`: a row of failures has ended since the entries were written for the next process.
    """

    def __init__(self, kept_seconds: float) -> None:
        self._kept_seconds = kept_seconds
        self._repairs: dict[str, Repair] = {}
        self.unsaved = False

    def started(self, claim_uid: str, stage: RepairStage, owner: str, now: float, lived: float = 0.0) -> bool:
        """The claim, which is `lived` seconds old, is about to be deleted. Whether that is news to other processes."""
        news = claim_uid not in self._repairs
        self._repairs[claim_uid] = Repair(stage=stage, owner=owner, at=now, lived=lived)
        for uid, one in self._repairs.items():
            if one.ended_by == claim_uid and one.stage.is_alike(stage):
                self._repairs[uid] = msgspec.structs.replace(one, ended_by="")
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

    def in_turn(self, stage: RepairStage, owner: str, claim_uid: str, created: float, now: float) -> int:
        """How many machines of this owner failed alike one after the other, before that of this claim was created.

        None of them was created before the last one was replaced: machines of a fleet that fail at different times
        of one long life are no loop.
        """
        counted = [
            one
            for one in self._within(now).values()
            if one.owner == owner and one.stage.is_alike(stage) and one.ended_by in ("", claim_uid)
        ]
        count, ended = 0, -math.inf
        for one in sorted(counted, key=lambda one: one.at):
            if one.is_before(created) and one.at - one.lived >= ended - CLOCK_SECONDS:
                count, ended = count + 1, one.at
        return count

    def works(
        self, claim_uid: str, owner: str, created: float, now: float, shows: Callable[[RepairStage], bool]
    ) -> None:
        """The machine of this claim is usable: it ends the repairs of machines before it that did not become older.

        If it fails like them later, these repairs count again. `shows(stage)`: whether it does not have what others
        failed by.
        """
        for uid, one in self._within(now).items():
            age = 0.0 if one.stage.stage in STARTING else OUTLIVED_SHARE * one.lived
            outlived = one.is_before(created) and now - created > age
            if one.owner == owner and not one.ended_by and outlived and shows(one.stage):
                self._repairs[uid] = msgspec.structs.replace(one, ended_by=claim_uid)
                self.unsaved = True

    def young_stages(self) -> frozenset[RepairStage]:
        """What young machines failed by."""
        return frozenset(one.stage for one in self._repairs.values() if one.stage.young)

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
                lived=round(one.lived),
                ended_by=one.ended_by,
                at=(wall - timedelta(seconds=now - one.at)).replace(microsecond=0),
            )
            for uid, one in newest
        )

    def restore(self, repairs: Iterable[RecentRepair], wall: datetime, now: float) -> None:
        """Count repairs of former leaders. One dated in the future, by another clock, counts as made now."""
        for repair in repairs:
            at = now - max(0.0, (wall - repair.at).total_seconds())
            made = Repair(
                stage=repair.of,
                owner=repair.owner,
                at=at,
                owner_only=repair.owner_only,
                lived=repair.lived,
                ended_by=repair.ended_by,
            )
            self._repairs.setdefault(repair.claim_uid, made)

    def _within(self, now: float) -> dict[str, Repair]:
        self._repairs = {uid: one for uid, one in self._repairs.items() if now - one.at < self._kept_seconds}
        return self._repairs
