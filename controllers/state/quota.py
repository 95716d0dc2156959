"""What the last reading of quota says about the offerings of waiting claims.

An offering for which no quota is left is passed by without a request while readings are current. A reading that leaves
more quota than the one before ends the delay of the offerings that now fit. Without readings nothing changes.

Whether the usages contain a requested machine yet is not known before it runs. So the readings since before its PUT are
kept until then, and what is left is the least by any of them, less the machines requested after it: none counts twice.

Loop times in seconds. Source: docs/references/rules.md#unavailable-offerings.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from cloudprovider.errors import QUOTA_EXCEEDED
from cloudprovider.interface import Offering, OfferingQuota, QuotaLeft, Usage
from controllers.model.facts import Offer

from .unavailable_offerings import UnavailableOfferings

# Two readings may fail before the last one is no longer used.
CURRENT_SECONDS = 150.0
# How long the usages may lack a machine after its PUT, and after it runs.
ALLOCATION_SECONDS = 600.0
LAG_SECONDS = 60.0
# The next reading is announced to claims whose quota it changes; this is a fallback.
RECHECK_SECONDS = 60.0

# The usages, the offering, those that were requested since the usages were read, and those that are deleted first.
QuotaOf = Callable[[Mapping[str, Usage], Offering, Sequence[Offering], Sequence[Offering]], OfferingQuota | None]
# The usages, the names of quotas, and the offerings that the usages do not contain yet.
Left = Callable[[Mapping[str, Usage], Iterable[str], Sequence[Offering]], Mapping[str, QuotaLeft]]
# The usages of a reading, and what was requested after it.
Counted = tuple[Mapping[str, Usage], list[Offering]]


class Requested(NamedTuple):
    """A machine whose PUT was sent at `sent`; readings from `until` on contain it."""

    sent: float
    until: float
    key: str
    offering: Offering


class QuotaReadings:
    """`quota_of(usages, offering, requested, returned)`: the quota that limits the offering.
    `left(usages, names, requested)`: what is left of these quotas. `wake(key)`: for claims to reconcile. `begin()` is
    called when a claim begins to wait for quota.
    """

    def __init__(
        self,
        unavailable: UnavailableOfferings,
        quota_of: QuotaOf,
        left: Left,
        *,
        wake: Callable[[str], None],
        begin: Callable[[], None],
    ) -> None:
        self._unavailable = unavailable
        self._quota_of = quota_of
        self._wake = wake
        self._begin = begin
        self._left = left
        self._requested: list[Requested] = []
        self._waiting: dict[str, tuple[Offering, ...]] = {}
        self._usages: Mapping[str, Usage] = {}
        self._earlier: list[tuple[float, Mapping[str, Usage]]] = []
        self._began = 0.0
        self._read_at: float | None = None

    @property
    def waiting(self) -> bool:
        """Whether a claim waits for quota."""
        return bool(self._waiting)

    def read(self, usages: Mapping[str, Usage], began: float, now: float) -> None:
        """Use a reading, whose request was sent at `began`."""
        before = self._current(now)
        self._requested = [one for one in self._requested if one.until > began]
        known = [*self._earlier, (self._began, before)] if before else []
        # Only the last reading before each request, and those after it, can lack its machine.
        since = [max((at for at, _ in known if at <= one.sent), default=began) for one in self._requested]
        kept = [(at, old) for at, old in known if at >= min(since, default=began)]
        self._earlier = [(at, _with_limits(old, usages)) for at, old in kept]
        self._usages, self._began, self._read_at = usages, began, now
        for key, offerings in list(self._waiting.items()):
            pairs = [
                (one, self._quota_of(before, one, (), ()), self._quota_of(usages, one, (), ())) for one in offerings
            ]
            raised = [one for one, old, new in pairs if _raised(old, new)]
            self._unavailable.end_delay(raised, now, reason=QUOTA_EXCEEDED)
            if any(old != new for _, old, new in pairs):
                self._wake(key)

    def fitting(self, key: str, offerings: tuple[Offering, ...], now: float) -> tuple[Offering, ...]:
        """The offerings for which quota is left, as far as it is known, after the requests of other keys."""
        counted = self._counted(now, besides=key)
        return tuple(one for one in offerings if self._lacking(one, counted) is None)

    def applied(self, key: str, offers: tuple[Offer, ...], *, waits: bool, now: float) -> tuple[Offer, ...]:
        """The offers with those made unavailable that have no quota. `waits`: the claim waits for an offering."""
        found = self.shown(key, offers, now)
        if waits and any(offer.reason == QUOTA_EXCEEDED for offer in found):
            self._waiting[key] = tuple(offer.offering for offer in found)
            self._begin()
        else:
            self.release(key)
        return found

    def shown(self, key: str, offers: tuple[Offer, ...], now: float) -> tuple[Offer, ...]:
        """The same, of a claim that does not ask for quota now."""
        counted = self._counted(now, besides=key)
        return tuple(_without_quota(offer, self._lacking(offer.offering, counted)) for offer in offers)

    def release(self, key: str) -> None:
        """This key does not wait for quota."""
        self._waiting.pop(key, None)

    def requested(self, key: str, offering: Offering, now: float) -> None:
        """A PUT for this offering is about to be sent: the last reading does not contain its machine."""
        sent = Requested(now, now + ALLOCATION_SECONDS, key, offering)
        self._requested = [*self._requested, sent] if self._current(now) else []

    def runs(self, key: str, now: float) -> None:
        """The machine of this key runs: the usages contain it soon."""
        self._requested = [
            one._replace(until=min(one.until, now + LAG_SECONDS)) if one.key == key else one for one in self._requested
        ]

    def refused(self, key: str) -> None:
        """The PUT of this key was refused, its machine failed, or it is gone."""
        self._requested = [one for one in self._requested if one.key != key]

    def obstacles(self, now: float) -> Callable[[Offering], str]:
        """Tells why a machine that nobody requested yet has no quota; "" if it has, or if readings are not current."""
        counted = self._counted(now)
        if not counted:
            return lambda _: ""

        def obstacle(offering: Offering) -> str:
            lacking = self._lacking(offering, counted)
            return "" if lacking is None else f"{offering.size}: {lacking.text}"

        return obstacle

    def is_current(self, now: float) -> bool:
        """Whether the last reading still counts."""
        return bool(self._current(now))

    def obstacle_after(self, returned: Offering, offering: Offering, now: float) -> str:
        """Why there is no quota for this offering once the machine `returned` is deleted; "" if there is.

        Claims that already wait for quota request their machines before the next one does.
        """
        for usages, sent in self._counted(now):
            before = list(sent)
            for one in (offerings[0] for offerings in self._waiting.values()):
                quota = self._quota_of(usages, one, before, (returned,))
                before += [one] if quota is not None and quota.sufficient else []
            quota = self._quota_of(usages, offering, before, (returned,))
            if quota is not None and not quota.sufficient:
                return f"{offering.size}: after its deletion, {quota.text}"
        return ""

    def left(self, names: Iterable[str], coming: Mapping[str, Offering], now: float) -> Mapping[str, QuotaLeft]:
        """What is left of these quotas, as far as readings are current.

        `coming`: by key, what claims are going to request if they have not done so.
        """
        requested = {one.key for one in self._requested}
        expected = [one for key, one in coming.items() if key not in requested]
        least: dict[str, QuotaLeft] = {}
        for usages, sent in self._counted(now):
            for name, one in self._left(usages, names, [*sent, *expected]).items():
                if name not in least or one.left < least[name].left:
                    least[name] = one
        return least

    def _lacking(self, offering: Offering, counted: Sequence[Counted]) -> OfferingQuota | None:
        """The quota of which too little is left for the offering by one of the readings; None if there is none."""
        found = (self._quota_of(usages, offering, sent, ()) for usages, sent in counted)
        return next((one for one in found if one is not None and not one.sufficient), None)

    def _counted(self, now: float, besides: str = "") -> list[Counted]:
        """The readings that count, each with what other keys requested after it; none if they are not current."""
        if not (usages := self._current(now)):
            return []
        readings = [(self._began, usages), *self._earlier]
        requested = [one for one in self._requested if one.key != besides]
        return [(usages, [one.offering for one in requested if one.sent >= at]) for at, usages in readings]

    def _current(self, now: float) -> Mapping[str, Usage]:
        return self._usages if self._read_at is not None and now - self._read_at <= CURRENT_SECONDS else {}


def _without_quota(offer: Offer, lacking: OfferingQuota | None) -> Offer:
    if lacking is None:
        return offer
    known = offer.reason == QUOTA_EXCEEDED
    return msgspec.structs.replace(
        offer,
        available_in=max(offer.available_in, RECHECK_SECONDS),
        failed=True,
        reason=QUOTA_EXCEEDED,
        message=offer.message if known else lacking.failure.message,
        scope=offer.scope if known else lacking.failure.scope,
        after=offer.after if known else lacking.failure.after,
        failed_age=min(offer.failed_age, RECHECK_SECONDS),
    )


def _with_limits(old: Mapping[str, Usage], new: Mapping[str, Usage]) -> dict[str, Usage]:
    """Earlier usages with the limits of now: a raised limit counts at once."""
    return {name: Usage(limit=new[name].limit, used=one.used) for name, one in old.items() if name in new}


def _raised(before: OfferingQuota | None, after: OfferingQuota | None) -> bool:
    """Whether more is left than before, and enough for one machine."""
    return before is not None and after is not None and after.sufficient and after.left > before.left
