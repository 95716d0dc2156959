"""The offerings of one claim: which of them it may request next, given what is unavailable in the cluster.

A failure for want of capacity or quota is recorded once, whether the PUT was refused or the pool failed later. An
instance that runs makes its offering available. A claim requests each of its offerings once before it repeats one.
After a restart the conditions of claims restore what was unavailable; the retry annotation ends a delay.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import msgspec

from cloudprovider.errors import CloudError, NoCapacity
from cloudprovider.interface import Failure, Instance, InstanceState, Offering
from controllers.model.conditions import launched
from controllers.model.facts import Facts, Offer
from controllers.model.offering_scope import offering_scope
from controllers.model.steps import CreateInstance
from provisioner.api import labels
from provisioner.api.conditions import EXHAUSTED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .quota import QuotaReadings
from .unavailable_offerings import UnavailableOfferings

OfferingsOf = Callable[[NodeClaim], tuple[Offering, ...]]
FailureOf = Callable[[str, str], Failure | None]


class OfferingCounter(Protocol):
    """Counts the requests of each offering."""

    def tried(self, offering: Offering) -> None: ...


class OfferingTracker:
    """`offerings_of` lists what a claim allows, in order of preference; () if its requirements cannot be met.

    `failure_of(reason, message)`: the shortage that a condition reports; None if it reports another failure, or the
    scope is unknown. `vacant_seconds()`: for how long no process led before this one.
    """

    def __init__(
        self,
        unavailable_offerings: UnavailableOfferings,
        offerings_of: OfferingsOf,
        counter: OfferingCounter,
        failure_of: FailureOf,
        vacant_seconds: Callable[[], float],
        *,
        quota: QuotaReadings,
    ) -> None:
        self._unavailable_offerings = unavailable_offerings
        self._quota = quota
        self._offerings_of = offerings_of
        self._counter = counter
        self._failure_of = failure_of
        self._vacant_seconds = vacant_seconds
        self._failed_etags: dict[str, str] = {}
        self._restored: set[str] = set()
        self._retry_seen: dict[str, str] = {}
        self._tried: dict[str, set[Offering]] = {}

    def update_from_instance(self, key: str, instance: Instance | None, *, wall: datetime, now: float) -> None:
        """Record what the state of this key's pool says about its offering."""
        if instance is None:
            return
        failure = instance.failure
        if instance.state is InstanceState.RUNNING:
            self._unavailable_offerings.mark_available(key, instance.offering, requested=instance.put_time)
        elif failure is not None and failure.kind == NoCapacity.kind and self._failed_etags.get(key) != instance.etag:
            self._failed_etags[key] = instance.etag
            self._failed(key, instance.offering, failure, requested=instance.put_time, wall=wall, now=now)

    def offers(self, f: Facts, *, blocked: bool) -> tuple[Offer, ...]:
        """The offerings that the claim in charge allows, and when it may request each.

        `blocked`: something other than its offerings keeps the claim from requesting an instance.
        """
        claim, now = f.claim, f.loop_now
        if claim is not None and launched(claim) and f.instance is not None:
            # The Node proves the instance before ARM reports it.
            self._unavailable_offerings.mark_available(f.key, f.instance.offering, requested=f.instance.put_time)
        if claim is None or claim.deleting or launched(claim):
            self._unavailable_offerings.release(f.key)
            self._quota.release(f.key)
            self._tried.pop(f.key, None)
            return ()
        offerings = self._offerings_of(claim)
        self._restore(f, claim, offerings)
        self._retry_annotated(f.key, claim, offerings, now)
        ended = f.instance is None or f.instance.state in (InstanceState.FAILED, InstanceState.DELETING)
        waits_for_quota = ended and bool(offerings) and not blocked
        if f.instance is not None and f.instance.state is not InstanceState.FAILED:
            offers = self._unavailable_offerings.shown(f.key, offerings, now=now)
            return self._quota.applied(f.key, offers, waits=waits_for_quota, now=now)
        fitting = self._quota.fitting(offerings, now)
        waits = f.instance is None and bool(fitting) and not blocked
        created = claim.metadata.creation_timestamp
        self._unavailable_offerings.offers(f.key, fitting, created=created, waits=waits, now=now)
        offers = self._unavailable_offerings.shown(f.key, offerings, now=now)
        return self._with_tried(f.key, self._quota.applied(f.key, offers, waits=waits_for_quota, now=now))

    def create_started(self, step: CreateInstance, now: float) -> None:
        """A PUT is about to be sent."""
        if step.offering is not None:
            self._unavailable_offerings.create_started(step.name, step.offering, now)
            self._quota.requested(step.name, step.offering, now)
            self._counter.tried(step.offering)

    def create_failed(
        self, step: CreateInstance, error: CloudError, *, requested: datetime, wall: datetime, now: float
    ) -> None:
        """The PUT, sent at the wall time `requested`, was refused. An accepted one still probes its offering."""
        self._quota.refused(step.name)
        if isinstance(error, NoCapacity) and step.offering is not None:
            failure = Failure(
                reason=error.reason, message=error.message, kind=error.kind, scope=error.scope, after=error.after
            )
            self._failed(step.name, step.offering, failure, requested=requested, wall=wall, now=now)

    def obstacle(self, offering: Offering, now: float) -> str:
        """Why a claim that is created now could not request this offering; "" if it could."""
        return self._unavailable_offerings.obstacle(offering, now) or self._quota.obstacle(offering, now)

    def forget(self, key: str) -> None:
        """Drop this key."""
        self._unavailable_offerings.release(key)
        self._quota.release(key)
        self._failed_etags.pop(key, None)
        self._restored.discard(key)
        self._retry_seen.pop(key, None)
        self._tried.pop(key, None)

    def _failed(
        self, key: str, offering: Offering, failure: Failure, *, requested: datetime | None, wall: datetime, now: float
    ) -> None:
        self._tried.setdefault(key, set()).add(offering)
        self._unavailable_offerings.mark_unavailable(key, offering, failure, requested=requested, wall=wall, now=now)

    def _with_tried(self, key: str, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
        """Mark the offerings that this claim has tried; once it has tried all, it starts again with the first."""
        tried = self._tried.get(key, set())
        if all(offer.offering in tried for offer in offers):
            self._tried.pop(key, None)
            return offers
        return tuple(msgspec.structs.replace(offer, tried=offer.offering in tried) for offer in offers)

    def _retry_annotated(self, key: str, claim: NodeClaim, offerings: tuple[Offering, ...], now: float) -> None:
        """A new value of the retry annotation ends the delays once. The value at first sight may be an old one."""
        value = claim.metadata.annotations.get(labels.RETRY, "")
        before = self._retry_seen.setdefault(key, value)
        if value != before:
            self._retry_seen[key] = value
            if value:
                self._unavailable_offerings.end_delay(offerings, now)

    def _restore(self, f: Facts, claim: NodeClaim, offerings: tuple[Offering, ...]) -> None:
        """Once for each key: restore what the claim's condition, written by an earlier process, reports."""
        if f.key in self._restored:
            return
        self._restored.add(f.key)
        condition = claim.condition(LAUNCHED, "False")
        if condition is None or not offerings:
            return
        message = condition.message.partition(f"; {EXHAUSTED}")[0]
        found = self._failure_of(condition.reason, message)
        if EXHAUSTED not in condition.message and (found is None or found.scope != "cluster"):
            return
        failure = Failure(reason=condition.reason, message=message, kind=NoCapacity.kind, scope="zone")
        if found is not None and all(map(offering_scope(offerings[0], found.scope).covers, offerings)):
            # Otherwise the message is about one of several offerings, and does not say which.
            failure = msgspec.structs.replace(failure, scope=found.scope, after=found.after)
        since, idle = condition.last_transition_time, self._vacant_seconds()
        self._unavailable_offerings.restore(
            offerings, failure, since=since, idle_seconds=idle, wall=f.now, now=f.loop_now
        )
