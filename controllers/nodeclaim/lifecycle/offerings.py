"""Which offering a claim asks for next, and what is said while none of them can be had.

The first of the claim's offerings that nobody has found wanting lately; one that has failed rests, and after
its rest one claim tries it for all. A claim whose offerings all rest says the cause of the last failure, and the words
by which KAITO's RAG engine knows that there is nothing more to try; the text stays as it is while the state does. What
the cluster lacks (addresses, say) rests all offerings in the same way, without those words: no offering was wanting.

Source: docs/references/rules.md#unavailable-offerings, docs/references/agent-pools.md#quota-and-capacity-errors,
docs/references/kaito.md#ragengine, docs/references/kaito.md#contract (K10, K17).
"""

import msgspec

from cloudprovider.errors import NoCapacity, Scope
from cloudprovider.interface import CapacityType, Instance, Offering
from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from provisioner.api.conditions import EXHAUSTED, LAUNCHED


class OfferingScope(msgspec.Struct, frozen=True, kw_only=True):
    """The offerings that one failure speaks of; None stands for any."""

    size: str | None = None
    zone: str | None = None
    capacity_type: CapacityType | None = None

    def covers(self, offering: Offering) -> bool:
        """Whether this offering is among them."""
        return (
            self.size in (None, offering.size)
            and self.zone in (None, offering.zone)
            and self.capacity_type in (None, offering.capacity_type)
        )


def offering_scope(offering: Offering, scope: Scope) -> OfferingScope:
    """What a failure of this offering within `scope` makes unlikely too."""
    match scope:
        case "size":
            return OfferingScope(size=offering.size, capacity_type=offering.capacity_type)
        case "zone":
            return OfferingScope(size=offering.size, zone=offering.zone)
        case "priority" | "region":
            return OfferingScope(capacity_type=offering.capacity_type)
        case "configuration":
            # It may be this claim's own: whoever asks for something else must not rest for it.
            return OfferingScope(size=offering.size, zone=offering.zone, capacity_type=offering.capacity_type)
        case "cluster":
            return OfferingScope()


def next_offering(f: Facts) -> Offering | None:
    """What to ask for now; None if the claim allows nothing that can be expressed, or if all of it rests.

    What this claim has tried comes last: a try takes minutes, in which the short rest of the one before ends.
    """
    free = [offer for offer in f.offers if offer.holds_for <= 0]
    return next((offer.offering for offer in (*(o for o in free if not o.tried), *free)), None)


def exhausted(f: Facts) -> bool:
    """Whether everything that the claim allows was found wanting, and nothing has come of it since."""
    return bool(f.offers) and all(offer.reason and not offer.of_cluster for offer in f.offers)


def blocking_condition(f: Facts) -> ConditionUpdate | None:
    """The Launched condition of a claim whose offerings all rest; None: one of them may be asked for."""
    claim = f.claim
    if claim is None or not f.offers or any(offer.holds_for <= 0 for offer in f.offers):
        return None
    last = min(f.offers, key=lambda offer: offer.failed_age)
    soonest = min(offer.holds_for for offer in f.offers)
    told, ended = claim.condition(LAUNCHED, "False"), exhausted(f)
    kept = told is not None and told.reason == last.reason and (EXHAUSTED in told.message) == ended
    words = without_exhausted(told.message) if told is not None and kept else last.message
    message = with_exhausted(words) if ended else words
    return ConditionUpdate(status="False", reason=last.reason, message=message, recheck=soonest, warning=True)


def with_exhausted(message: str) -> str:
    """A failure's words and those that say that nothing else is left to try."""
    return f"{message}; {EXHAUSTED}"


def without_exhausted(message: str) -> str:
    """The failure's words again."""
    return message.partition(f"; {EXHAUSTED}")[0]


def last_failure(f: Facts) -> ConditionUpdate | None:
    """The cause of the attempt that has just failed, while other offerings are left."""
    failed = f.create_failed
    if failed is None or failed.kind != NoCapacity.kind or not failed.concerns(f.claim):
        return None
    message = with_exhausted(failed.message) if exhausted(f) else failed.message
    return ConditionUpdate(status="False", reason=failed.reason, message=message, warning=True)


def attempt_message(f: Facts, offering: Offering) -> str:
    """What is said of a choice among several, or of one more try; "" for a first and only one."""
    failed = next((o for o in f.offers if o.reason), None)
    if len(f.offers) < 2 and failed is None:
        return ""
    cause = f"; {failed.offering}: {failed.reason}" if failed is not None else ""
    return f"asks for {offering}, choice {_rank(f, offering)} of {len(f.offers)}{cause}"


def fallback_message(f: Facts, instance: Instance) -> str:
    """What a pool is that is not what its claim prefers, and why; "" for the first choice. Told once, it stays so."""
    place = _rank(f, instance.offering)
    if f.claim is None or place < 2:
        return ""
    choice, first = f"{instance.offering} is choice {place} of {len(f.offers)}", f.offers[0]
    told = f.claim.condition(LAUNCHED, "Unknown")
    cause = f", {first.offering} had {first.reason}" if first.reason else ""
    said = told.message.split("; ") if told is not None else []
    return next((words for words in said if words.startswith(choice)), choice + cause)


def _rank(f: Facts, offering: Offering) -> int:
    """Its place among the claim's offerings, from 1; 0 if it is none of them."""
    return next((n for n, offer in enumerate(f.offers, start=1) if offer.offering == offering), 0)
