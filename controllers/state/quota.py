"""What the last reading of quota says about the offerings of waiting claims.

An offering for which no quota is left is passed by without a request while readings are current. A reading that leaves
more quota than the one before ends the delay of the offerings that now fit. Without readings nothing changes.

Loop times in seconds. Source: docs/references/rules.md#unavailable-offerings.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cloudprovider.errors import QUOTA_EXCEEDED
from cloudprovider.interface import Offering, OfferingQuota, Usage
from controllers.model.facts import Offer

from .unavailable_offerings import UnavailableOfferings

# Two readings may fail before the last one is no longer used.
CURRENT_SECONDS = 150.0
# The next reading is announced to claims whose quota it changes; this is a fallback.
RECHECK_SECONDS = 60.0

QuotaOf = Callable[[Mapping[str, Usage], Offering], OfferingQuota | None]
# The offering, and those that were requested since the usages were read.
Shortage = Callable[[Mapping[str, Usage], Offering, Sequence[Offering]], str]


class QuotaReadings:
    """`quota_of(usages, offering)`: the quota that limits the offering. `wake(key)`: for claims to reconcile.

    `shortage(usages, offering, requested)`: why no quota is left for one more machine, "" if it is. `begin()` is called
    when a claim begins to wait for quota.
    """

    def __init__(
        self,
        unavailable: UnavailableOfferings,
        quota_of: QuotaOf,
        wake: Callable[[str], None],
        begin: Callable[[], None],
        shortage: Shortage,
    ) -> None:
        self._unavailable = unavailable
        self._quota_of = quota_of
        self._wake = wake
        self._begin = begin
        self._shortage = shortage
        self._requested: list[tuple[float, str, Offering]] = []
        self._waiting: dict[str, tuple[Offering, ...]] = {}
        self._usages: Mapping[str, Usage] = {}
        self._read_at: float | None = None

    @property
    def waiting(self) -> bool:
        """Whether a claim waits for quota."""
        return bool(self._waiting)

    def read(self, usages: Mapping[str, Usage], began: float, now: float) -> None:
        """Use a reading, whose request was sent at `began`."""
        self._requested = [one for one in self._requested if one[0] >= began]
        before, self._usages, self._read_at = self._current(now), usages, now
        for key, offerings in list(self._waiting.items()):
            pairs = [(one, self._quota_of(before, one), self._quota_of(usages, one)) for one in offerings]
            raised = [one for one, old, new in pairs if _raised(old, new)]
            self._unavailable.end_delay(raised, now, reason=QUOTA_EXCEEDED)
            if any(old != new for _, old, new in pairs):
                self._wake(key)

    def fitting(self, offerings: tuple[Offering, ...], now: float) -> tuple[Offering, ...]:
        """The offerings that the last reading does not exclude."""
        usages = self._current(now)
        return tuple(one for one in offerings if not _excluded(self._quota_of(usages, one)))

    def applied(self, key: str, offers: tuple[Offer, ...], *, waits: bool, now: float) -> tuple[Offer, ...]:
        """The offers with those made unavailable that have no quota. `waits`: the claim waits for an offering."""
        usages = self._current(now)
        found = tuple(self._without_quota(offer, usages) for offer in offers)
        if waits and any(offer.reason == QUOTA_EXCEEDED for offer in found):
            self._waiting[key] = tuple(offer.offering for offer in found)
            self._begin()
        else:
            self.release(key)
        return found

    def release(self, key: str) -> None:
        """This key does not wait for quota."""
        self._waiting.pop(key, None)

    def requested(self, key: str, offering: Offering, now: float) -> None:
        """A PUT for this offering is about to be sent: the last reading does not contain its machine."""
        self._requested = [*self._requested, (now, key, offering)] if self._current(now) else []

    def refused(self, key: str) -> None:
        """The PUT of this key was refused."""
        self._requested = [one for one in self._requested if one[1] != key]

    def obstacle(self, offering: Offering, now: float) -> str:
        """Why a machine that nobody has requested yet has no quota; "" if it has, or if readings are not current."""
        usages = self._current(now)
        return self._shortage(usages, offering, [one for _, _, one in self._requested]) if usages else ""

    def _current(self, now: float) -> Mapping[str, Usage]:
        return self._usages if self._read_at is not None and now - self._read_at <= CURRENT_SECONDS else {}

    def _without_quota(self, offer: Offer, usages: Mapping[str, Usage]) -> Offer:
        quota = self._quota_of(usages, offer.offering) if usages else None
        if quota is None or not _excluded(quota):
            return offer
        known = offer.reason == QUOTA_EXCEEDED
        return msgspec.structs.replace(
            offer,
            available_in=max(offer.available_in, RECHECK_SECONDS),
            failed=True,
            reason=QUOTA_EXCEEDED,
            message=offer.message if known else quota.failure.message,
            failed_age=min(offer.failed_age, RECHECK_SECONDS),
        )


def _excluded(quota: OfferingQuota | None) -> bool:
    return quota is not None and not quota.sufficient


def _raised(before: OfferingQuota | None, after: OfferingQuota | None) -> bool:
    """Whether more is left than before, and enough for one machine."""
    return before is not None and after is not None and after.sufficient and after.left > before.left
