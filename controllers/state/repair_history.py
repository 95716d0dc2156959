"""The repairs of young machines within the last hour: those of this process, and those that former leaders left.

A repair is recorded before it is sent, so that a leader that is killed in between has counted it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from controllers.model.recent_repairs import RecentRepair, RepairStage


class RepairHistory:
    """Times are loop times in seconds; wall clocks date only what passes from one process to another."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._repairs: dict[str, tuple[RepairStage, float]] = {}

    def started(self, claim_uid: str, stage: RepairStage, now: float) -> bool:
        """The claim is about to be deleted. Whether that is news to other processes."""
        news = claim_uid not in self._repairs
        self._repairs[claim_uid] = stage, now
        return news

    def not_sent(self, claim_uid: str) -> None:
        """The repair could not be recorded, and was not sent."""
        self._repairs.pop(claim_uid, None)

    def alike(self, stage: RepairStage, now: float) -> int:
        """How many such machines were replaced within the window."""
        return sum(stage == other for other, _ in self._within(now).values())

    def entries(self, wall: datetime, now: float) -> tuple[RecentRepair, ...]:
        """The repairs within the window, with their times on the wall clock."""
        return tuple(
            RecentRepair(
                claim_uid=uid,
                size=stage.size,
                image=stage.image,
                stage=stage.stage,
                at=(wall - timedelta(seconds=now - at)).replace(microsecond=0),
            )
            for uid, (stage, at) in self._within(now).items()
        )

    def restore(self, repairs: Iterable[RecentRepair], wall: datetime, now: float) -> None:
        """Count repairs of former leaders. One dated in the future, by another clock, counts as made now."""
        for repair in repairs:
            at = now - max(0.0, (wall - repair.at).total_seconds())
            self._repairs.setdefault(repair.claim_uid, (repair.of, at))

    def _within(self, now: float) -> dict[str, tuple[RepairStage, float]]:
        self._repairs = {uid: one for uid, one in self._repairs.items() if now - one[1] < self._window_seconds}
        return self._repairs
