"""Between the reconciler and the memory of offerings: what a key's own story tells it, and what the key may ask for.

Every failure for want of capacity enters once, whether the cloud refused at once or the pool failed later;
every machine that runs clears what stood against it; a claim tries all that it allows before it tries anything again;
one found saying that nothing can be had is believed after a restart; a person's word ends a rest.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import msgspec

from cloudprovider.errors import CloudError, NoCapacity
from cloudprovider.interface import Failure, Instance, InstanceState, Offering
from controllers.model.facts import Facts, Offer
from controllers.model.steps import CreateInstance
from controllers.nodeclaim.lifecycle.launch import own_blocking_condition
from controllers.nodeclaim.lifecycle.launch_failure import launched
from controllers.nodeclaim.lifecycle.offerings import OfferingScope, offering_scope, without_exhausted
from provisioner.api import labels
from provisioner.api.conditions import EXHAUSTED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .unavailable_offerings import Finding, UnavailableOfferings

OfferingsOf = Callable[[NodeClaim], tuple[Offering, ...]]
Recalled = Callable[[str, str], Failure | None]


class OfferingMetrics(Protocol):
    """Who counts."""

    def tried(self, offering: Offering) -> None: ...


class OfferingTracker:
    """`offerings_of` lists what a claim allows, the preferred first; () if it cannot be expressed.

    `recalled(reason, message)`: the shortage that a condition tells of; None if it is none, or cannot be told.
    `vacant_seconds()`: for how long nobody had led before this process did.
    """

    def __init__(
        self,
        unavailable_offerings: UnavailableOfferings,
        offerings_of: OfferingsOf,
        tallies: OfferingMetrics,
        recalled: Recalled,
        vacant_seconds: Callable[[], float],
    ) -> None:
        self._unavailable_offerings = unavailable_offerings
        self._offerings_of = offerings_of
        self._tallies = tallies
        self._shortage_told = recalled
        self._vacant_seconds = vacant_seconds
        self._seen_failed: dict[str, str] = {}
        self._recalled: set[str] = set()
        self._retry_seen: dict[str, str] = {}
        self._tried: dict[str, list[OfferingScope]] = {}

    def notice(self, key: str, instance: Instance | None, *, wall: datetime, now: float) -> None:
        """What the cloud says of this key's pool."""
        if instance is None:
            return
        failure = instance.failure
        if instance.state is InstanceState.RUNNING:
            self._unavailable_offerings.came(key, instance.offering, asked=instance.put_time)
        elif failure is not None and failure.kind == NoCapacity.kind and self._seen_failed.get(key) != instance.etag:
            self._seen_failed[key] = instance.etag
            finding = Finding(reason=failure.reason, message=failure.message, scope=failure.scope, after=failure.after)
            self._failed(key, instance.offering, finding, asked=instance.put_time, wall=wall, now=now)

    def offers(self, f: Facts, now: float) -> tuple[Offer, ...]:
        """What the claim in charge allows, and what of it may be asked for now."""
        claim = f.claim
        if claim is not None and launched(claim) and f.instance is not None:
            # Its Node proves the machine before ARM says so.
            self._unavailable_offerings.came(f.key, f.instance.offering, asked=f.instance.put_time)
        if claim is None or claim.deleting or launched(claim):
            self._unavailable_offerings.left(f.key)
            self._tried.pop(f.key, None)
            return ()
        offerings = self._offerings_of(claim)
        self._recall(f, claim, offerings, now)
        self._heed(f.key, claim, offerings, now)
        born = claim.metadata.creation_timestamp
        if f.instance is not None and f.instance.state is not InstanceState.FAILED:
            return self._unavailable_offerings.shown(f.key, offerings, now=now)
        waits = f.instance is None and bool(offerings) and own_blocking_condition(f) is None
        offers = self._unavailable_offerings.offers(f.key, offerings, created=born, waits=waits, now=now)
        return self._told_apart(f.key, offers)

    def asked(self, step: CreateInstance, now: float) -> None:
        """A PUT is about to be sent."""
        if step.offering is not None:
            self._unavailable_offerings.asked(step.name, step.offering, now)
            self._tallies.tried(step.offering)

    def refused(self, step: CreateInstance, error: CloudError, *, asked: datetime, wall: datetime, now: float) -> None:
        """The PUT, sent at the wall time `asked`, was refused; one that is accepted goes on being a try."""
        if isinstance(error, NoCapacity) and step.offering is not None:
            finding = Finding(reason=error.reason, message=error.message, scope=error.scope, after=error.after)
            self._failed(step.name, step.offering, finding, asked=asked, wall=wall, now=now)

    def forget(self, key: str) -> None:
        """Nothing is left of this key."""
        self._unavailable_offerings.left(key)
        self._seen_failed.pop(key, None)
        self._recalled.discard(key)
        self._retry_seen.pop(key, None)
        self._tried.pop(key, None)

    def _failed(
        self, key: str, offering: Offering, finding: Finding, *, asked: datetime | None, wall: datetime, now: float
    ) -> None:
        self._tried.setdefault(key, []).append(offering_scope(offering, finding.scope))
        self._unavailable_offerings.failed(key, offering, finding, asked=asked, wall=wall, now=now)

    def _told_apart(self, key: str, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
        """Who has tried everything begins anew with what it prefers."""
        tried = self._tried.get(key, [])
        again = [any(one.covers(offer.offering) for one in tried) for offer in offers]
        if all(again):
            self._tried.pop(key, None)
            return offers
        pairs = zip(offers, again, strict=True)
        return tuple(msgspec.structs.replace(offer, tried=seen) for offer, seen in pairs)

    def _heed(self, key: str, claim: NodeClaim, offerings: tuple[Offering, ...], now: float) -> None:
        """A person's word ends a rest once, when it is new: what stood there before our time may long be obeyed."""
        word = claim.metadata.annotations.get(labels.RETRY, "")
        before = self._retry_seen.setdefault(key, word)
        if word != before:
            self._retry_seen[key] = word
            if word:
                self._unavailable_offerings.lift(offerings, now)

    def _recall(self, f: Facts, claim: NodeClaim, offerings: tuple[Offering, ...], now: float) -> None:
        """Once for each key: its claim may have been told by a process before us that nothing can be had."""
        if f.key in self._recalled:
            return
        self._recalled.add(f.key)
        told = claim.condition(LAUNCHED, "False")
        if told is None or not offerings:
            return
        words = without_exhausted(told.message)
        failure = self._shortage_told(told.reason, words)
        if EXHAUSTED not in told.message and (failure is None or failure.scope != "cluster"):
            return
        finding = Finding(reason=told.reason, message=words, scope="zone")
        if failure is not None and all(map(offering_scope(offerings[0], failure.scope).covers, offerings)):
            # Else it speaks of one of several, and does not say of which.
            finding = msgspec.structs.replace(finding, scope=failure.scope, after=failure.after)
        since, idle = told.last_transition_time, self._vacant_seconds()
        self._unavailable_offerings.recall(offerings, finding, since=since, idle_seconds=idle, wall=f.now, now=now)
