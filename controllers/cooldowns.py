"""What was found wanting, how long it rests, and who may try it next: the fleet's memory of offerings.

Promise: a failure makes what it speaks of rest for 30 s, doubling to 10 min (longer where the cloud's answer says so);
attempts that were already on their way then make it no longer. After its rest one claim, the one that has waited
longest, tries it; a machine that comes of an attempt made since then ends the rest for all.
Nothing here matters after a restart: failed pools and claims that still say so bring it back (`recall`, `failed`).
Left to others: what a plan makes of it (`offerings.py`).

Source: DESIGN rule 7. Loop times in seconds; wall times where an attempt's own time (a pool's tag) is compared.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec

from cloudprovider.errors import NoCapacity, Scope
from cloudprovider.interface import Offering

from .facts import Offer
from .memory import backoff
from .offerings import Shadow, shadow


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A failure for want of capacity or quota: its words, its scope and for how many seconds the cloud says so."""

    reason: str
    message: str
    scope: Scope
    after: float | None = None


@dataclass(slots=True)
class Cooldown:
    """One shadow's rest. `probe` is the key that tries it."""

    shadow: Shadow
    finding: Finding
    times: int
    failed_at: float
    failed_wall: datetime
    seconds: float
    probe: str = ""

    def left(self, now: float) -> float:
        """Seconds of rest that are left; 0 or less: somebody may try."""
        return self.seconds - (now - self.failed_at)


@dataclass(slots=True, frozen=True)
class Waiter:
    """A claim that could ask for its pool but for the rest of its offerings."""

    created: datetime
    offerings: tuple[Offering, ...]


class Cooldowns:
    """`wake(key)` is called for claims whose waiting may be over before the time they were told."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._known: dict[Shadow, Cooldown] = {}
        self._waiting: dict[str, Waiter] = {}

    def failed(
        self, key: str, offering: Offering, finding: Finding, *, asked: datetime | None, wall: datetime, now: float
    ) -> None:
        """An attempt of `key`, sent at the wall time `asked`, ended for want of this."""
        about = shadow(offering, finding.scope)
        before = self._known.get(about)
        if before is not None and before.probe != key and asked is not None and asked <= before.failed_wall:
            return
        times = before.times + 1 if before is not None else 1
        seconds = backoff(NoCapacity.kind, times, after=finding.after) or 0.0
        self._known[about] = Cooldown(about, finding, times, now, wall, seconds)
        self._release(key)
        self._stir(about)

    def recall(self, key: str, offerings: Iterable[Offering], finding: Finding, *, wall: datetime, now: float) -> None:
        """A claim from before our time says that all of these were wanting: they rest anew, if nothing is known."""
        for offering in offerings:
            if not any(True for _ in self._about(offering)):
                self.failed(key, offering, finding, asked=None, wall=wall, now=now)

    def came(self, key: str, offering: Offering, *, asked: datetime | None) -> None:
        """A machine runs: what was found wanting before it was asked for can be had again."""
        if asked is None:
            return
        for cooldown in list(self._about(offering)):
            if cooldown.probe == key or asked > cooldown.failed_wall:
                del self._known[cooldown.shadow]
                self._stir(cooldown.shadow)

    def asked(self, key: str, offering: Offering) -> None:
        """A PUT for this offering is about to be sent: it is the one try of whatever has rested."""
        self._waiting.pop(key, None)
        for cooldown in self._about(offering):
            cooldown.probe = key

    def left(self, key: str) -> None:
        """This key neither tries nor waits for anything any longer."""
        self._waiting.pop(key, None)
        for cooldown in self._release(key):
            self._stir(cooldown.shadow)

    def offers(
        self, key: str, offerings: tuple[Offering, ...], *, created: datetime, waits: bool, now: float
    ) -> tuple[Offer, ...]:
        """What may be asked for now. `waits`: nothing but its offerings keeps this claim from asking."""
        if waits:
            self._waiting[key] = Waiter(created, offerings)
        else:
            self.left(key)
        return tuple(self._offer(key, offering, now) for offering in offerings)

    def resting(self, now: float) -> tuple[tuple[Shadow, float], ...]:
        """Everything that rests, and for how many seconds more (0: whoever is first may try)."""
        return tuple((cooldown.shadow, max(0.0, cooldown.left(now))) for cooldown in self._known.values())

    def _offer(self, key: str, offering: Offering, now: float) -> Offer:
        worst = Offer(offering=offering)
        for cooldown in self._about(offering):
            holds = max(worst.holds_for, self._holds(key, cooldown, now))
            age = now - cooldown.failed_at
            said = cooldown.finding if age < worst.failed_age else worst
            worst = Offer(
                offering=offering,
                holds_for=holds,
                reason=said.reason,
                message=said.message,
                failed_age=min(age, worst.failed_age),
            )
        return worst

    def _holds(self, key: str, cooldown: Cooldown, now: float) -> float:
        left = cooldown.left(now)
        if left > 0:
            return left
        if cooldown.probe:
            return 0.0 if cooldown.probe == key else math.inf
        return 0.0 if self._first(cooldown) in ("", key) else math.inf

    def _first(self, cooldown: Cooldown) -> str:
        """The claim that has waited longest for anything in this shadow."""
        waiting = (
            (w.created, key) for key, w in self._waiting.items() if any(map(cooldown.shadow.covers, w.offerings))
        )
        return min(waiting, default=(None, ""))[1]

    def _about(self, offering: Offering) -> Iterator[Cooldown]:
        return (cooldown for cooldown in list(self._known.values()) if cooldown.shadow.covers(offering))

    def _release(self, key: str) -> list[Cooldown]:
        released = [cooldown for cooldown in self._known.values() if cooldown.probe == key]
        for cooldown in released:
            cooldown.probe = ""
        return released

    def _stir(self, about: Shadow) -> None:
        for key, waiter in list(self._waiting.items()):
            if any(map(about.covers, waiter.offerings)):
                self._wake(key)
