"""Selection of the offering to try next, and the Launched condition while all are unavailable.

The first available offering of the claim is tried, in the order in which the cloud gives them
(`cloudprovider/azure/offerings.py`), those that were tried before at the end. An offering that failed is unavailable
for a while; then one claim probes it for all. If all offerings of a claim are unavailable, its condition has the cause
of the last failure and the phrase by which KAITO's RAGEngine detects exhaustion. What the cluster lacks (for example IP
addresses) makes all offerings unavailable without that phrase, and so does a request that is refused whatever its
offering.

Source: docs/references/rules.md#unavailable-offerings, docs/references/agent-pools.md#quota-and-capacity-errors,
docs/references/kaito.md#ragengine, docs/references/kaito.md#contract (K10, K17).
"""

import msgspec

from cloudprovider.errors import NoCapacity, Rejected
from cloudprovider.interface import Failure, Instance, Offering
from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from controllers.model.failures import CloudFailure
from controllers.model.reported import NOTHING, OF_CLUSTER, LaunchFailure, Reported, reported
from provisioner.api.conditions import EXHAUSTED


def next_offering(f: Facts) -> Offering | None:
    """The offering to try now; None if the claim allows none, or all are unavailable.

    Offerings that this claim has tried come last: after the minutes of an attempt, an earlier one may be available.
    """
    free = [offer for offer in f.offers if offer.available_in <= 0]
    return next((offer.offering for offer in (*(o for o in free if not o.tried), *free)), None)


def exhausted(f: Facts) -> bool:
    """Whether all offerings of the claim have failed and none has succeeded since."""
    return bool(f.offers) and all(offer.failed and not (offer.of_cluster or offer.refused) for offer in f.offers)


def tries_next(failed: CloudFailure) -> bool:
    """Whether a claim requests its next offering after this failure: nothing was created, or for want of capacity.

    A machine that was created and failed delays the next attempt, whatever its offering.
    """
    refused = failed.kind == Rejected.kind and failed.delay is not None and not failed.of_machine
    return failed.kind == NoCapacity.kind or refused


def blocking_condition(f: Facts) -> ConditionUpdate | None:
    """The Launched condition of a claim whose offerings are all unavailable; None if one can be tried."""
    claim = f.claim
    if claim is None or not f.offers or any(offer.available_in <= 0 for offer in f.offers):
        return None
    soonest = min(offer.available_in for offer in f.offers)
    last, known, ended = min(f.offers, key=lambda offer: offer.failed_age), reported(claim).failure, exhausted(f)
    # Another failure for the same reason changes nothing that the condition reports.
    keep = known is not None and (known.reason, known.exhausted) == (last.reason, ended)
    cause = known.message if known is not None and keep else last.message
    failure = LaunchFailure(reason=last.reason, message=cause, scope=last.scope, after=last.after, exhausted=ended)
    return msgspec.structs.replace(_condition(failure), recheck=soonest)


def failed_condition(f: Facts, failed: Failure) -> ConditionUpdate:
    """The Launched condition after an attempt that has just failed."""
    ended = failed.kind == NoCapacity.kind and exhausted(f)
    found = _condition(
        LaunchFailure(
            reason=failed.reason, message=failed.message, scope=failed.scope, after=failed.after, exhausted=ended
        )
    )
    # The failure of one of several offerings is of no use later.
    return found if ended or failed.scope in OF_CLUSTER else msgspec.structs.replace(found, reports=NOTHING)


def last_failure(f: Facts) -> ConditionUpdate | None:
    """The Launched condition after a request that was refused, while other offerings remain."""
    failed = f.create_failed
    if failed is None or not tries_next(failed) or not failed.concerns(f.claim, f.node_class):
        return None
    last = min(f.offers, key=lambda offer: offer.failed_age) if f.offers else None
    scope, after = (last.scope, last.after) if last is not None else ("request", None)
    failure = Failure(reason=failed.reason, message=failed.message, kind=NoCapacity.kind, scope=scope, after=after)
    return failed_condition(f, failure)


def _condition(failure: LaunchFailure) -> ConditionUpdate:
    """With the phrase for exhaustion if all offerings have failed."""
    message = f"{failure.message}; {EXHAUSTED}" if failure.exhausted else failure.message
    reports = Reported(failure=failure)
    return ConditionUpdate(status="False", reason=failure.reason, message=message, warning=True, reports=reports)


def attempt_message(f: Facts, offering: Offering) -> str:
    """The Event about an attempt; "" for the first attempt with the only offering."""
    failed = next((o for o in f.offers if o.failed), None)
    if len(f.offers) < 2 and failed is None:
        return ""
    cause = f"; {failed.offering}: {failed.reason}" if failed is not None else ""
    return f"creating {offering}, choice {_rank(f, offering)} of {len(f.offers)}{cause}"


def fallback_message(f: Facts, instance: Instance) -> str:
    """Which choice the pool is, and why the first failed; "" for the first."""
    place = _rank(f, instance.offering)
    if f.claim is None or place < 2:
        return ""
    failed = first_failed(f)
    cause = f", {f.offers[0].offering} failed with {failed}" if failed else ""
    return f"{instance.offering} is choice {place} of {len(f.offers)}{cause}"


def first_failed(f: Facts) -> str:
    """The reason for which the first offering failed before another one was requested; "" if it did not."""
    if f.offers and f.offers[0].failed:
        return f.offers[0].reason
    return reported(f.claim).first_choice if f.claim is not None else ""


def _rank(f: Facts, offering: Offering) -> int:
    """The position among the claim's offerings, from 1; 0 if it is not one of them."""
    return next((n for n, offer in enumerate(f.offers, start=1) if offer.offering == offering), 0)
