"""What was found wanting, how long it rests, and who may try it next: the fleet's memory of offerings.

A failure makes what it speaks of rest for 30 s, doubling to 10 min (longer where the cloud's answer says so);
attempts that were already on their way then make it no longer. After its rest one claim, the one that has waited
longest of those that nothing else keeps from it, tries it; a machine that comes of an attempt made since then ends the
rest for all. What nobody asked for in the hour after its rest is forgotten.
Nothing here matters after a restart: failed pools and claims that still say so bring it back (`recall`, `failed`).

Loop times in seconds; wall times where an attempt's own time (a pool's tag) is compared.
Source: docs/references/rules.md#unavailable-offerings.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from cloudprovider.errors import NoCapacity, Scope
from cloudprovider.interface import Offering
from controllers.model.facts import Offer
from controllers.nodeclaim.lifecycle.offerings import OfferingScope, offering_scope

from .memory import backoff

# Turns pass by waking whoever is next; who waits looks by itself as well, so that no lost word makes it wait for ever.
TURN_SECONDS = 30.0
# Shortages show within minutes. What takes longer was allocated, or hangs: the next claim need not wait for it.
TRY_MOST_SECONDS = 600.0
# Nothing is known any more of what nobody has tried for so long after its rest; and never more than so much is known.
FORGOTTEN_SECONDS = 3600.0
KNOWN_AT_MOST = 1000


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A failure for want of capacity or quota: its words, its scope and for how many seconds the cloud says so."""

    reason: str
    message: str
    scope: Scope
    after: float | None = None


@dataclass(slots=True)
class UnavailableOffering:
    """One shadow's rest. `probe` is the key that tries it, since `probed_at`; `recalled`: known from claims only."""

    offering_scope: OfferingScope
    finding: Finding
    times: int
    failed_at: float
    failed_wall: datetime
    seconds: float
    probe: str = ""
    probed_at: float = 0.0
    recalled: bool = False

    def left(self, now: float) -> float:
        """Seconds of rest that are left; 0 or less: somebody may try."""
        return self.seconds - (now - self.failed_at)

    def tried_by_another(self, key: str, now: float) -> bool:
        """Whether its one try is under way, and not this key's."""
        return self.probe not in ("", key) and now - self.probed_at < TRY_MOST_SECONDS


@dataclass(slots=True, frozen=True)
class Waiter:
    """A claim that could ask for its pool but for the rest of its offerings."""

    created: datetime
    offerings: tuple[Offering, ...]


def _resumed(finding: Finding, age: float) -> tuple[int, float]:
    """Failures, and seconds that are gone of the last one's rest, had each try failed as soon as the rest was over."""
    times, seconds = 1, backoff(NoCapacity.kind, 1, after=finding.after) or 0.0
    while 0.0 < seconds <= age:
        longer = backoff(NoCapacity.kind, times + 1, after=finding.after) or 0.0
        if longer == seconds:
            return times + int(age // seconds), age % seconds
        times, age, seconds = times + 1, age - seconds, longer
    return times, age


class UnavailableOfferings:
    """`wake(key)` is called for claims whose waiting may be over before the time they were told."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._known: dict[OfferingScope, UnavailableOffering] = {}
        self._waiting: dict[str, Waiter] = {}

    def failed(
        self, key: str, offering: Offering, finding: Finding, *, asked: datetime | None, wall: datetime, now: float
    ) -> None:
        """An attempt of `key`, sent at the wall time `asked`, ended for want of this."""
        about = offering_scope(offering, finding.scope)
        before = self._known.get(about)
        late = before is not None and before.probe != key and asked is not None and asked <= before.failed_wall
        freed = [unavailable.offering_scope for unavailable in self._release(key)]
        if not late:
            times = before.times + 1 if before is not None else 1
            seconds = backoff(NoCapacity.kind, times, after=finding.after) or 0.0
            self._known[about] = UnavailableOffering(about, finding, times, now, wall, seconds)
            self._forget_old(now)
            freed.append(about)
        # A try of several at once is one of each: what it did not find wanting is the next one's to try.
        for one in dict.fromkeys(freed):
            self._stir(one)

    def recall(
        self,
        offerings: Iterable[Offering],
        finding: Finding,
        *,
        since: datetime,
        idle_seconds: float,
        wall: datetime,
        now: float,
    ) -> None:
        """A claim has said since a moment before our time that these were wanting: their rest goes on where it was.

        `idle_seconds` of that time nobody led and so nobody tried: they are rest alone.

        Of several claims the one that makes them rest longest is believed: who has tried last says so since then only.
        """
        age = max(0.0, (wall - since).total_seconds())
        idle = min(age, idle_seconds)
        times, gone = _resumed(finding, age - idle)
        gone += idle
        seconds, ago = backoff(NoCapacity.kind, times, after=finding.after) or 0.0, timedelta(seconds=gone)
        for offering in offerings:
            about, known = offering_scope(offering, finding.scope), list(self._about(offering))
            told = UnavailableOffering(about, finding, times, now - gone, wall - ago, seconds, recalled=True)
            if all(one.recalled and not one.probe and one.left(now) < told.left(now) for one in known):
                self._known[about] = told
        self._forget_old(now)

    def came(self, key: str, offering: Offering, *, asked: datetime | None) -> None:
        """A machine runs: what was found wanting before it was asked for can be had again."""
        if asked is None:
            return
        for unavailable in list(self._about(offering)):
            if unavailable.probe == key or asked > unavailable.failed_wall:
                del self._known[unavailable.offering_scope]
                self._stir(unavailable.offering_scope)

    def lift(self, offerings: Iterable[Offering], now: float) -> None:
        """A person says that these can be had again: their rest is over, and whose turn it is tries for all."""
        for offering in offerings:
            for unavailable in self._about(offering):
                if unavailable.left(now) > 0:
                    unavailable.seconds = now - unavailable.failed_at
                    self._stir(unavailable.offering_scope)

    def asked(self, key: str, offering: Offering, now: float) -> None:
        """A PUT for this offering is about to be sent: it is the one try of whatever has rested."""
        self._waiting.pop(key, None)
        for unavailable in self._about(offering):
            unavailable.probe, unavailable.probed_at = key, now

    def left(self, key: str) -> None:
        """This key neither tries nor waits for anything any longer."""
        self._waiting.pop(key, None)
        for unavailable in self._release(key):
            self._stir(unavailable.offering_scope)

    def offers(
        self, key: str, offerings: tuple[Offering, ...], *, created: datetime, waits: bool, now: float
    ) -> tuple[Offer, ...]:
        """What may be asked for now. `waits`: nothing but its offerings keeps this claim from asking."""
        self._forget_old(now)
        if waits:
            self._waiting[key] = Waiter(created, offerings)
        else:
            self.left(key)
        return self.shown(key, offerings, now=now)

    def shown(self, key: str, offerings: tuple[Offering, ...], *, now: float) -> tuple[Offer, ...]:
        """What stands against each of them now, for a claim that has asked already."""
        return tuple(self._offer(key, offering, now) for offering in offerings)

    def resting(self, now: float) -> tuple[tuple[OfferingScope, float], ...]:
        """Everything that rests, and for how many seconds more (0: whoever is first may try)."""
        return tuple(
            (unavailable.offering_scope, max(0.0, unavailable.left(now))) for unavailable in self._known.values()
        )

    def _offer(self, key: str, offering: Offering, now: float) -> Offer:
        worst = Offer(offering=offering)
        for unavailable in self._about(offering):
            holds = max(worst.holds_for, self._holds(key, unavailable, now))
            age = now - unavailable.failed_at
            worst = msgspec.structs.replace(worst, holds_for=holds)
            if age < worst.failed_age:
                said = unavailable.finding
                worst = msgspec.structs.replace(
                    worst,
                    reason=said.reason,
                    message=said.message,
                    failed_age=age,
                    of_cluster=said.scope == "cluster",
                )
        return worst

    def _holds(self, key: str, unavailable: UnavailableOffering, now: float) -> float:
        left = unavailable.left(now)
        if left > 0:
            return left
        others_turn = unavailable.tried_by_another(key, now) or self._first(unavailable, now) not in ("", key)
        return TURN_SECONDS if others_turn and unavailable.probe != key else 0.0

    def _first(self, unavailable: UnavailableOffering, now: float) -> str:
        """The claim that has waited longest for something in this shadow, and waits for nothing but its turn."""
        waiting = (
            (waiter.created, key)
            for key, waiter in self._waiting.items()
            if any(unavailable.offering_scope.covers(o) and self._rested(key, o, now) for o in waiter.offerings)
        )
        return min(waiting, default=(None, ""))[1]

    def _rested(self, key: str, offering: Offering, now: float) -> bool:
        return not any(one.left(now) > 0 or one.tried_by_another(key, now) for one in self._about(offering))

    def _forget_old(self, now: float) -> None:
        for unavailable in [one for one in self._known.values() if one.left(now) < -FORGOTTEN_SECONDS]:
            covers = unavailable.offering_scope.covers
            if not any(any(map(covers, waiter.offerings)) for waiter in self._waiting.values()):
                del self._known[unavailable.offering_scope]
        while len(self._known) > KNOWN_AT_MOST:
            del self._known[min(self._known.values(), key=lambda one: one.failed_at).offering_scope]

    def _about(self, offering: Offering) -> Iterator[UnavailableOffering]:
        return (
            unavailable for unavailable in list(self._known.values()) if unavailable.offering_scope.covers(offering)
        )

    def _release(self, key: str) -> list[UnavailableOffering]:
        released = [unavailable for unavailable in self._known.values() if unavailable.probe == key]
        for unavailable in released:
            unavailable.probe = ""
        return released

    def _stir(self, about: OfferingScope) -> None:
        for key, waiter in list(self._waiting.items()):
            if any(map(about.covers, waiter.offerings)):
                self._wake(key)
