"""The offerings of one claim: which of them it may request next, given what is unavailable in the cluster.

A failure for want of capacity or quota is recorded once, whether the PUT was refused or the pool failed later. A
refused request, two machines in a row that failed, or one that is created for too long, make offerings unavailable to
the claims of that launch template. An instance that runs makes its offering available. A claim requests each of its
offerings once before it repeats one. After a restart the conditions of claims restore what was unavailable; the retry
annotation ends a delay.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from cloudprovider.errors import QUOTA_EXCEEDED, CloudError, NoCapacity, Rejected
from cloudprovider.interface import Failure, Instance, InstanceState, Offering, QuotaLeft
from controllers.model.conditions import launched
from controllers.model.facts import Facts, Offer
from controllers.model.offering_scope import UNKNOWN, LaunchTemplate, OfferingScope, offering_scope
from controllers.model.reported import OF_CLUSTER, reported
from controllers.model.steps import CreateInstance
from provisioner.api import labels, reasons
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of

from .quota import QuotaReadings
from .unavailable_offerings import UnavailableOfferings

OfferingsOf = Callable[[NodeClaim], tuple[Offering, ...]]
TemplateOf = Callable[[NodeClaim], LaunchTemplate]
# `none`: an offering may be requested. `waiting`: none may, but not all of them have failed. `no-capacity`: all failed
# for want of capacity or quota. `refused`: also for other causes. `slow`: one is being created for too long.
LaunchObstacle = Literal["none", "waiting", "no-capacity", "refused", "slow"]

# One machine may fail by itself; after the second in a row, none is created with its launch template for a while.
FAILED_MACHINES = 2


class OfferingCounter(Protocol):
    """Counts the requests of each offering."""

    def tried(self, offering: Offering) -> None: ...


class OfferingTracker:
    """`offerings_of` lists what a claim allows, in order of preference; () if its requirements cannot be met.

    `vacant_seconds()`: for how long no process led before this one. `template_of`: what the request
    for a claim consists of besides its offering. `creating_seconds`: longer than AKS takes to create an instance.
    `withdrawn(offering)`: why the subscription has the offering no longer; "" if it has, or if that is not known.
    """

    def __init__(
        self,
        unavailable_offerings: UnavailableOfferings,
        offerings_of: OfferingsOf,
        counter: OfferingCounter,
        vacant_seconds: Callable[[], float],
        *,
        quota: QuotaReadings,
        template_of: TemplateOf,
        creating_seconds: float,
        withdrawn: Callable[[Offering], str],
        prices_known: Callable[[], bool] = lambda: True,
    ) -> None:
        self._prices_known = prices_known
        self._withdrawn = withdrawn
        self._unavailable_offerings = unavailable_offerings
        self._quota = quota
        self._template_of = template_of
        self._creating_seconds = creating_seconds
        self._offerings_of = offerings_of
        self._counter = counter
        self._vacant_seconds = vacant_seconds
        self._failed_etags: dict[str, str] = {}
        self._restored: set[str] = set()
        self._retry_seen: dict[str, str] = {}
        self._tried: dict[str, set[Offering]] = {}
        self._repeating: set[str] = set()
        self._failed_machines: dict[LaunchTemplate, int] = {}
        # Instances that are being created, each with the loop time at which this process first saw it.
        self._creating: dict[str, tuple[Instance, float]] = {}
        self._slow: set[str] = set()

    def update_from_instance(
        self, key: str, instance: Instance | None, *, claim: NodeClaim | None, wall: datetime, now: float
    ) -> None:
        """Record what the state of this key's pool says about its offering."""
        template = self._identify(key, claim)
        if instance is None or instance.state is not InstanceState.CREATING:
            self._creating.pop(key, None)
            self._slow.discard(key)
        if instance is None:
            return
        requested = instance.put_time
        if instance.state is InstanceState.RUNNING:
            self._failed_machines.pop(template, None)
            self._quota.runs(key, now)
            self._unavailable_offerings.mark_available(key, instance.offering, requested=requested)
        elif instance.state is InstanceState.CREATING:
            before, since = self._creating.get(key, (instance, now))
            self._creating[key] = instance, since if before.put_time == instance.put_time else now
        elif (failure := instance.failure) is not None and self._failed_etags.get(key) != instance.etag:
            self._failed_etags[key] = instance.etag
            self._quota.refused(key)
            if failure.kind != NoCapacity.kind:
                self._failed_machines[template] = self._failed_machines.get(template, 0) + 1
            if failure.kind == NoCapacity.kind or self._failed_machines[template] >= FAILED_MACHINES:
                self._failed(key, instance.offering, failure, requested=requested, wall=wall, now=now)

    def ordered(self, claim: NodeClaim | None) -> bool:
        """Whether the offerings of the claim are in their order: those of a NodePool's claim need prices."""
        return claim is None or nodepool_of(claim) is None or self._prices_known()

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
        self._identify(f.key, claim)
        offerings = self._offerings_of(claim)
        self._restore(f, claim, offerings)
        self._retry_annotated(f.key, claim, offerings, now)
        ended = f.instance is None or f.instance.state in (InstanceState.FAILED, InstanceState.DELETING)
        waits_for_quota = ended and bool(offerings) and not blocked
        if f.instance is not None and f.instance.state is not InstanceState.FAILED:
            offers = self._unavailable_offerings.shown(f.key, offerings, now=now)
            return self._quota.applied(f.key, offers, waits=waits_for_quota, now=now)
        fitting = self._quota.fitting(f.key, offerings, now)
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
        if step.offering is not None and isinstance(error, NoCapacity | Rejected):
            if isinstance(error, Rejected) and error.final:
                return
            self._identify(step.name, step.claim)
            failure = Failure(
                reason=error.reason, message=error.message, kind=error.kind, scope=error.scope, after=error.after
            )
            self._failed(step.name, step.offering, failure, requested=requested, wall=wall, now=now)

    def template_refused(
        self, template: LaunchTemplate, offerings: Iterable[Offering], failure: Failure, *, wall: datetime, now: float
    ) -> None:
        """The API server refused a NodeClaim of this launch template with these offerings."""
        for offering in offerings:
            self._unavailable_offerings.mark_unavailable(
                "", offering, failure, requested=None, wall=wall, now=now, template=template, uncreated=True
            )

    def refused(self, template: LaunchTemplate, now: float) -> tuple[tuple[OfferingScope, str], ...]:
        """What claims of this launch template may not request now though others may, each with the cause."""
        return self._unavailable_offerings.refused(template, now)

    def obstacles(self, now: float) -> Callable[[Offering], str]:
        """Tells why no claim that is created now could request an offering; "" if one could."""
        failed, lacking = self._unavailable_offerings.obstacles(now), self._quota.obstacles(now)
        return lambda offering: failed(offering) or lacking(offering)

    def scarcity(self, claim: NodeClaim, own: Offering, now: float) -> str | None:
        """Why none of the offerings of this claim can be had for another machine once its own is deleted; "" if nothing
        is known that prevents it, None if its offerings are not known.

        An offering that the subscription has no longer, one whose last request failed within an hour, one without quota
        by current readings, which also count what the deletion returns. Without them a refusal for quota is a failure.
        """
        offerings = self._offerings_of(claim)
        found = [self._scarcity(one, self._template_of(claim), own, now) for one in offerings]
        return None if not found else found[0] if all(found) else ""

    def reads_quota(self, now: float) -> bool:
        """Whether current readings of quota are known."""
        return self._quota.is_current(now)

    def _scarcity(self, offering: Offering, template: LaunchTemplate, own: Offering, now: float) -> str:
        besides = QUOTA_EXCEEDED if self._quota.is_current(now) else ""
        return (
            self._withdrawn(offering)
            or self._unavailable_offerings.scarcity(offering, template, now, besides=besides)
            or self._quota.obstacle_after(own, offering, now)
        )

    def quotas(self, names: Iterable[str], claims: Mapping[str, NodeClaim], now: float) -> Mapping[str, QuotaLeft]:
        """What machines besides those of these claims, by key, may use of these quotas, as far as it is known.

        A claim without an instance counts as the first offering that it may request.
        """
        coming = dict[str, Offering]()
        for key, claim in claims.items():
            creating = claim.condition(LAUNCHED, "Unknown")
            if creating is not None and creating.reason == reasons.CREATING:
                continue  # its usage is counted, or its request is known
            if claim.deleting or launched(claim) or key in self._creating:
                continue
            if fitting := self._quota.fitting(key, self._offerings_of(claim), now):
                coming[key] = fitting[0]
        return self._quota.left(names, coming, now)

    def launch_obstacle(self, key: str, claim: NodeClaim, *, wall: datetime, now: float) -> LaunchObstacle:
        """Whether the claim may request any of its offerings now, and if not, whether each has failed."""
        self._identify(key, claim)
        if self._is_slow(key, wall=wall, now=now):
            return "slow"
        delayed = self._unavailable_offerings.delayed(key, self._offerings_of(claim), now=now)
        offers = self._quota.shown(key, delayed, now)
        if any(offer.available_in <= 0 for offer in offers):
            return "none"
        if not all(offer.failed or offer.refused for offer in offers):
            return "waiting"
        return "refused" if not offers or any(offer.refused for offer in offers) else "no-capacity"

    def is_trying(self, key: str) -> bool:
        """Whether an offering of the claim has failed, and another one was not requested yet."""
        return bool(self._tried.get(key)) and key not in self._repeating

    def forget(self, key: str) -> None:
        """Drop this key."""
        self._repeating.discard(key)
        self._unavailable_offerings.forget(key)
        self._quota.release(key)
        self._quota.refused(key)
        self._creating.pop(key, None)
        self._slow.discard(key)
        self._failed_etags.pop(key, None)
        self._restored.discard(key)
        self._retry_seen.pop(key, None)
        self._tried.pop(key, None)

    def _failed(
        self, key: str, offering: Offering, failure: Failure, *, requested: datetime | None, wall: datetime, now: float
    ) -> None:
        template = self._unavailable_offerings.template_of(key)
        if template == UNKNOWN and (failure.kind != NoCapacity.kind or failure.scope == "subnet"):
            return  # without its claim it is not known whom this concerns
        self._tried.setdefault(key, set()).add(offering)
        self._unavailable_offerings.mark_unavailable(
            key, offering, failure, requested=requested, wall=wall, now=now, template=template
        )

    def _is_slow(self, key: str, *, wall: datetime, now: float) -> bool:
        """Whether the agent pool of this key is being created for too long; its offering is recorded as failed once.

        At least half of that time is observed by this process, or all of it: clocks differ, and are set.
        """
        instance, since = self._creating.get(key, (None, now))
        if instance is None or instance.put_time is None:
            return False
        age, observed = (wall - instance.put_time).total_seconds(), now - since
        slow = max(observed, min(age, 2.0 * observed)) >= self._creating_seconds
        if slow and key not in self._slow:
            self._slow.add(key)
            self._failed(key, instance.offering, _slow(instance), requested=instance.put_time, wall=wall, now=now)
        return slow

    def _identify(self, key: str, claim: NodeClaim | None) -> LaunchTemplate:
        template = self._template_of(claim) if claim is not None else UNKNOWN
        self._unavailable_offerings.identify(key, template)
        return template

    def _with_tried(self, key: str, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
        """Mark the offerings that this claim has tried; once it has tried all, it starts again with the first."""
        tried = self._tried.get(key, set())
        if all(offer.offering in tried for offer in offers):
            self._tried.pop(key, None)
            self._repeating.add(key)
            return offers
        return tuple(msgspec.structs.replace(offer, tried=offer.offering in tried) for offer in offers)

    def _retry_annotated(self, key: str, claim: NodeClaim, offerings: tuple[Offering, ...], now: float) -> None:
        """A new value of the retry annotation ends the delays once. The value at first sight may be an old one."""
        value = claim.metadata.annotations.get(labels.RETRY, "")
        before = self._retry_seen.setdefault(key, value)
        if value != before:
            self._retry_seen[key] = value
            if value:
                self._unavailable_offerings.end_delay(offerings, now, key=key)

    def _restore(self, f: Facts, claim: NodeClaim, offerings: tuple[Offering, ...]) -> None:
        """Once for each key: restore what the claim, written by an earlier process, reports of its last failure."""
        if f.key in self._restored:
            return
        self._restored.add(f.key)
        condition = claim.condition(LAUNCHED, "False")
        if condition is None or not offerings:
            return
        known = reported(claim).failure
        if known is None or known.reason != condition.reason or not (known.exhausted or known.scope in OF_CLUSTER):
            return
        failure = Failure(reason=known.reason, message=known.message, kind=NoCapacity.kind, scope="zone")
        if all(map(offering_scope(offerings[0], known.scope).includes, offerings)):
            # Otherwise the failure is one of several offerings, and it is not known which.
            failure = msgspec.structs.replace(failure, scope=known.scope, after=known.after)
        since, idle = condition.last_transition_time, self._vacant_seconds()
        self._unavailable_offerings.restore(
            offerings,
            failure,
            since=since,
            idle_seconds=idle,
            wall=f.now,
            now=f.loop_now,
            template=self._unavailable_offerings.template_of(f.key),
        )


def _slow(instance: Instance) -> Failure:
    message = f"agent pool {instance.name} is still being created"
    return Failure(reason=reasons.CREATING, message=message, kind=Rejected.kind, scope="size")
