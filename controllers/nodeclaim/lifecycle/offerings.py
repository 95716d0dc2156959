"""Selection of the offering to try next, and the Launched condition while all are unavailable.

The first available offering of the claim is tried. An offering that failed is unavailable for a while; then one claim
probes it for all. If all offerings of a claim are unavailable, its condition has the cause of the last failure and the
phrase by which KAITO's RAGEngine detects exhaustion. What the cluster lacks (for example IP addresses) makes all
offerings unavailable without that phrase, and so does a request that is refused whatever its offering.

Source: docs/references/rules.md#unavailable-offerings, docs/references/agent-pools.md#quota-and-capacity-errors,
docs/references/kaito.md#ragengine, docs/references/kaito.md#contract (K10, K17).
"""

from cloudprovider.errors import NoCapacity, Rejected
from cloudprovider.interface import Instance, Offering
from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from controllers.model.failures import CloudFailure
from provisioner.api.conditions import EXHAUSTED, LAUNCHED


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
    last = min(f.offers, key=lambda offer: offer.failed_age)
    soonest = min(offer.available_in for offer in f.offers)
    current, ended = claim.condition(LAUNCHED, "False"), exhausted(f)
    keep = current is not None and current.reason == last.reason and (EXHAUSTED in current.message) == ended
    cause = without_exhausted(current.message) if current is not None and keep else last.message
    message = with_exhausted(cause) if ended else cause
    return ConditionUpdate(status="False", reason=last.reason, message=message, recheck=soonest, warning=True)


def with_exhausted(message: str) -> str:
    """The message with the phrase for exhaustion appended."""
    return f"{message}; {EXHAUSTED}"


def without_exhausted(message: str) -> str:
    """The message without the phrase for exhaustion."""
    return message.partition(f"; {EXHAUSTED}")[0]


def last_failure(f: Facts) -> ConditionUpdate | None:
    """The Launched condition after an attempt that has just failed, while other offerings remain."""
    failed = f.create_failed
    if failed is None or not tries_next(failed) or not failed.concerns(f.claim):
        return None
    message = with_exhausted(failed.message) if exhausted(f) else failed.message
    return ConditionUpdate(status="False", reason=failed.reason, message=message, warning=True)


def attempt_message(f: Facts, offering: Offering) -> str:
    """The Event about an attempt; "" for the first attempt with the only offering."""
    failed = next((o for o in f.offers if o.failed), None)
    if len(f.offers) < 2 and failed is None:
        return ""
    cause = f"; {failed.offering}: {failed.reason}" if failed is not None else ""
    return f"creating {offering}, choice {_rank(f, offering)} of {len(f.offers)}{cause}"


def fallback_message(f: Facts, instance: Instance) -> str:
    """Which choice the pool is, and why the first failed; "" for the first. The text on the claim is kept."""
    place = _rank(f, instance.offering)
    if f.claim is None or place < 2:
        return ""
    choice, first = f"{instance.offering} is choice {place} of {len(f.offers)}", f.offers[0]
    current = f.claim.condition(LAUNCHED, "Unknown")
    cause = f", {first.offering} failed with {first.reason}" if first.failed else ""
    parts = current.message.split("; ") if current is not None else []
    return next((part for part in parts if part.startswith(choice)), choice + cause)


def _rank(f: Facts, offering: Offering) -> int:
    """The position among the claim's offerings, from 1; 0 if it is not one of them."""
    return next((n for n, offer in enumerate(f.offers, start=1) if offer.offering == offering), 0)
