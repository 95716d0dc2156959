"""Unavailable offerings of the whole cluster: which, for how long, and which claim may try them next.

A shortage makes the offerings in its scope unavailable for 30 s, doubling to 5 min; a refused request, to the claims of
its launch template, for 5 min, doubling to an hour. Requests that were in flight at that time do not extend it. Then
one claim that waits for nothing else requests one of them: the claim whose offering failed least recently or not at
all, and of several such claims the one that has waited longest. An instance that was requested since then makes the
offerings available to all. An entry that nobody used for an hour after its delay is dropped.
Nothing here matters after a restart: failed pools and the conditions of claims restore it (`restore`,
`mark_unavailable`).

Loop times in seconds; wall times where the time of a PUT (a pool's tag) is compared.
Source: docs/references/rules.md#unavailable-offerings.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec

from cloudprovider.errors import NoCapacity
from cloudprovider.interface import Failure, Offering
from controllers.model.facts import Offer
from controllers.model.offering_scope import UNKNOWN, LaunchTemplate, OfferingScope, offering_scope
from controllers.model.reported import OF_CLUSTER
from provisioner.api.time import shifted

from .memory import backoff
from .unavailable_offering import UnavailableOffering, Waiter, resumed

# The next claim is reconciled when its turn comes; this is a fallback.
TURN_SECONDS = 30.0
# An entry is dropped so long after its delay, and the oldest ones beyond this number.
EXPIRED_SECONDS = 3600.0
ENTRIES_MAX = 1000


class UnavailableOfferings:
    """`wake(key)` is called for a claim whose offerings may be available earlier than announced."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._entries: dict[OfferingScope, UnavailableOffering] = {}
        self._waiting: dict[str, Waiter] = {}
        self._templates: dict[str, LaunchTemplate] = {}

    def identify(self, key: str, template: LaunchTemplate) -> None:
        """The claim of this key has this launch template."""
        self._templates[key] = template

    def template_of(self, key: str) -> LaunchTemplate:
        """The launch template of this key's claim."""
        return self._templates.get(key, UNKNOWN)

    def forget(self, key: str) -> None:
        """Drop this key."""
        self.release(key)
        self._templates.pop(key, None)

    def mark_unavailable(
        self,
        key: str,
        offering: Offering,
        failure: Failure,
        *,
        requested: datetime | None,
        wall: datetime,
        now: float,
        template: LaunchTemplate = UNKNOWN,
        uncreated: bool = False,
    ) -> None:
        """The request of `key`, sent at the wall time `requested`, failed. `template`: what it consisted of.

        `uncreated`: the API server refused the NodeClaim, which says nothing about those that exist.
        """
        about = offering_scope(offering, failure.scope, template, refused=failure.kind != NoCapacity.kind)
        about = msgspec.structs.replace(about, uncreated=uncreated)
        before = self._entries.get(about)
        late = before is not None and before.probe != key and requested is not None and requested <= before.failed_wall
        freed = [unavailable.offering_scope for unavailable in self._release(key)]
        failed = {**(before.failed if before is not None else {}), offering: now}
        if before is not None and late:
            before.failed = failed
        else:
            times = before.times + 1 if before is not None else 1
            seconds = backoff(failure.kind, times, after=failure.after) or 0.0
            self._entries[about] = UnavailableOffering(about, failure, times, now, wall, seconds, failed)
            self._drop_expired(now)
            freed.append(about)
        # One request probes all entries that cover its offering. Other entries are probed by the next claim.
        for one in dict.fromkeys(freed):
            self._wake_waiting(one)

    def restore(
        self,
        offerings: Iterable[Offering],
        failure: Failure,
        *,
        since: datetime,
        idle_seconds: float,
        wall: datetime,
        now: float,
        template: LaunchTemplate = UNKNOWN,
    ) -> None:
        """A claim's condition from before this process says since `since` that these are unavailable.

        In `idle_seconds` of that time no process led, so no request was sent. Of several claims, the one with the
        longest remaining delay counts.
        """
        age = max(0.0, (wall - since).total_seconds())
        idle = min(age, idle_seconds)
        times, gone = resumed(failure, age - idle)
        gone += idle
        seconds, failed_wall = backoff(failure.kind, times, after=failure.after) or 0.0, shifted(wall, -gone)
        offerings = tuple(offerings)
        for offering in offerings:
            about = offering_scope(offering, failure.scope, template)
            known = [
                one
                for one in self._entries.values()
                if not one.offering_scope.template and one.offering_scope.covers(offering, template)
            ]
            failed = {one: now - gone for one in offerings if about.includes(one)}
            if about in self._entries:
                self._entries[about].failed = {**failed, **self._entries[about].failed}
            entry = UnavailableOffering(about, failure, times, now - gone, failed_wall, seconds, failed, restored=True)
            if all(one.restored and not one.probe and one.remaining(now) < entry.remaining(now) for one in known):
                self._entries[about] = entry
        self._drop_expired(now)

    def mark_available(self, key: str, offering: Offering, *, requested: datetime | None) -> None:
        """An instance runs: the failures before its request no longer hold."""
        if requested is None:
            return
        for unavailable in list(self._covering(offering, key)):
            if unavailable.probe == key or requested > unavailable.failed_wall:
                del self._entries[unavailable.offering_scope]
                self._wake_waiting(unavailable.offering_scope)

    def end_delay(self, offerings: Iterable[Offering], now: float, *, reason: str = "", key: str = "") -> None:
        """The delay of these offerings, after failures for this reason if one is given, ends: the next claim tries.

        `key`: also after failures that concern this key alone.
        """
        for offering in offerings:
            for unavailable in self._covering(offering, key):
                if unavailable.remaining(now) > 0 and reason in ("", unavailable.failure.reason):
                    unavailable.seconds = now - unavailable.failed_at
                    self._wake_waiting(unavailable.offering_scope)

    def create_started(self, key: str, offering: Offering, now: float) -> None:
        """A PUT for this offering is about to be sent: it probes every entry that covers the offering."""
        self._waiting.pop(key, None)
        for unavailable in self._delaying(offering, key):
            unavailable.probe, unavailable.probed_at = key, now

    def release(self, key: str) -> None:
        """This key neither requests nor waits for an offering."""
        self._waiting.pop(key, None)
        for unavailable in self._release(key):
            self._wake_waiting(unavailable.offering_scope)

    def offers(
        self, key: str, offerings: tuple[Offering, ...], *, created: datetime, waits: bool, now: float
    ) -> tuple[Offer, ...]:
        """What may be requested now. `waits`: this claim waits for nothing but an available offering."""
        self._drop_expired(now)
        if waits:
            self._waiting[key] = Waiter(created, offerings)
        else:
            self.release(key)
        return self.shown(key, offerings, now=now)

    def shown(self, key: str, offerings: tuple[Offering, ...], *, now: float) -> tuple[Offer, ...]:
        """The state of each of them, for a claim that has requested one already."""
        return tuple(self._offer(key, offering, now) for offering in offerings)

    def delayed(self, key: str, offerings: tuple[Offering, ...], *, now: float) -> tuple[Offer, ...]:
        """The same, of a claim that need not wait for its turn."""
        return tuple(self._offer(key, offering, now, turns=False) for offering in offerings)

    def unavailable(self, now: float) -> tuple[tuple[OfferingScope, float], ...]:
        """Every entry, and for how many more seconds it is unavailable (0: the next claim may probe it)."""
        return tuple(
            (unavailable.offering_scope, max(0.0, unavailable.remaining(now))) for unavailable in self._entries.values()
        )

    def refused(self, template: LaunchTemplate, now: float) -> tuple[tuple[OfferingScope, str], ...]:
        """What claims of this launch template may not request now though others may, each with the cause."""
        return tuple(
            (scope, one.failure.message or one.failure.reason)
            for scope, one in self._entries.items()
            if scope.concerns(template) and not scope.everyone and one.remaining(now) > 0
        )

    def obstacles(self, now: float) -> Callable[[Offering], str]:
        """Tells the failure for which no new claim could request an offering now; "" if one could."""
        unavailable = [one for one in self._entries.values() if one.remaining(now) > 0]
        if not unavailable:
            return lambda _: ""

        def obstacle(offering: Offering) -> str:
            failed = (one for one in unavailable if self._covers(one.offering_scope, "", offering))
            last = max(failed, key=lambda one: one.failed_at, default=None)
            return f"{offering.size}: {last.failure.message or last.failure.reason}" if last is not None else ""

        return obstacle

    def scarcity(self, offering: Offering, template: LaunchTemplate, now: float, *, besides: str = "") -> str:
        """The last failure of this offering within an hour, or since when it is unavailable, for a claim of this launch
        template, unless a later request succeeded; "" if there was none. `besides`: failures for this reason.
        """
        failed = (
            one
            for one in self._entries.values()
            if one.offering_scope.covers(offering, template)
            and one.failure.reason != besides
            and (now - one.failed_at < EXPIRED_SECONDS or one.remaining(now) > 0)
        )
        last = max(failed, key=lambda one: one.failed_at, default=None)
        return f"{offering.size}: {last.failure.reason}" if last is not None else ""

    def _offer(self, key: str, offering: Offering, now: float, *, turns: bool = True) -> Offer:
        worst = Offer(offering=offering)
        for unavailable in self._delaying(offering, key):
            wait = self._available_in(key, unavailable, now) if turns else unavailable.remaining(now)
            seconds = max(worst.available_in, wait)
            age = now - unavailable.failed_at
            failed = worst.failed or offering in unavailable.failed
            worst = msgspec.structs.replace(worst, available_in=seconds, failed=failed)
            if age < worst.failed_age:
                failure = unavailable.failure
                worst = msgspec.structs.replace(
                    worst,
                    reason=failure.reason,
                    message=failure.message,
                    failed_age=age,
                    scope=failure.scope,
                    after=failure.after,
                    of_cluster=failure.scope in OF_CLUSTER,
                    refused=failure.kind != NoCapacity.kind,
                )
        return worst

    def _available_in(self, key: str, unavailable: UnavailableOffering, now: float) -> float:
        remaining = unavailable.remaining(now)
        if remaining > 0:
            return remaining
        others_turn = unavailable.probed_by_another(key, now) or self._first(unavailable, now) not in ("", key)
        return TURN_SECONDS if others_turn and unavailable.probe != key else 0.0

    def _first(self, unavailable: UnavailableOffering, now: float) -> str:
        """The next claim that requests an offering in this scope, among those that wait for their turn; "" for none.

        A failure of one offering must not keep a claim that allows another one in its scope from its turn.
        """
        turns: list[tuple[float, datetime, str]] = []
        for key, waiter in self._waiting.items():
            covered = [o for o in waiter.offerings if self._covers(unavailable.offering_scope, key, o)]
            failed = [unavailable.failed.get(o, -math.inf) for o in covered if self._delay_over(key, o, now)]
            if failed:
                turns.append((min(failed), waiter.created, key))
        return min(turns)[2] if turns else ""

    def _delay_over(self, key: str, offering: Offering, now: float) -> bool:
        return not any(
            one.remaining(now) > 0 or one.probed_by_another(key, now) for one in self._delaying(offering, key)
        )

    def _drop_expired(self, now: float) -> None:
        for unavailable in [one for one in self._entries.values() if one.remaining(now) < -EXPIRED_SECONDS]:
            if not any(self._waits_for(unavailable.offering_scope, key) for key in self._waiting):
                del self._entries[unavailable.offering_scope]
        while len(self._entries) > ENTRIES_MAX:
            del self._entries[min(self._entries.values(), key=lambda one: one.failed_at).offering_scope]

    def _covering(self, offering: Offering, key: str = "") -> Iterator[UnavailableOffering]:
        return (one for one in list(self._entries.values()) if self._covers(one.offering_scope, key, offering))

    def _delaying(self, offering: Offering, key: str) -> Iterator[UnavailableOffering]:
        """Those of them that concern a claim that exists."""
        return (one for one in self._covering(offering, key) if not one.offering_scope.uncreated)

    def _covers(self, about: OfferingScope, key: str, offering: Offering) -> bool:
        return about.covers(offering, self.template_of(key))

    def _waits_for(self, about: OfferingScope, key: str) -> bool:
        return any(self._covers(about, key, offering) for offering in self._waiting[key].offerings)

    def _release(self, key: str) -> list[UnavailableOffering]:
        released = [unavailable for unavailable in self._entries.values() if unavailable.probe == key]
        for unavailable in released:
            unavailable.probe = ""
        return released

    def _wake_waiting(self, about: OfferingScope) -> None:
        for key in list(self._waiting):
            if self._waits_for(about, key):
                self._wake(key)
